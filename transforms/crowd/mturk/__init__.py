"""Use MTurk from a single process, with every call that has side effects logged before and after. Does not use Beam."""
