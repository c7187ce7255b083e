"""The rule-based systems of the bAbI dialog tasks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.flags import INPUT, StrictParser, add_candidates
from parapet.pipelines.models.babi import Babi
from parapet.pipelines.models.family import Inputs, Training
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there
from parapet.schemas.limits import read_whole

if TYPE_CHECKING:
    from parapet.evaluation.models.babi.saving import Card

BUILT_IN = "task6"  # rules that come with Parapet


class Rules(Babi):
    """Rules for tasks 1 to 5, given or learned, or for task 6, from a file."""

    description = """\
Rule-based systems. For tasks 1 to 5, a bot with the patterns of an ontology, by default the simulator's, or with those
that it learns from dialogues and their knowledge base; these are in OUT/ontology.toml, too, for 'parapet restaurants'.
For task 6, rules from a file, with patterns from the training set, in the order that is best on dev."""
    example = """\
  parapet train rules --train babi/task1-trn.txt babi/task4-trn.txt --match babi/kb-all.txt --output my_model
  parapet train rules --ontology hotels.toml --output my_model
  parapet train rules --rules task6 --train task6-trn.txt --dev task6-dev.txt --match task6-kb.txt --output my_model"""

    def add_train_flags(self, parser: StrictParser) -> None:
        """The domain, or what it is learned from; or rules."""
        add = parser.group(INPUT)
        text = "domain in TOML (default: the paper's restaurants, with other names)"
        add("--ontology", metavar="FILE", reads=True, help=text)
        text = "dialogues in the bAbI format to learn the patterns from; needs --match"
        add("--train", nargs="+", metavar="FILE", reads=True, help=text)
        add("--match", metavar="FILE", reads=True, help="knowledge base of these dialogues")
        text = f"rules in TOML, or {BUILT_IN} for those of Parapet; needs --train"
        add("--rules", metavar=f"FILE|{BUILT_IN}", help=text)
        text = "with --rules: dialogues that choose the rules and their order"
        add("--dev", nargs="+", metavar="FILE", reads=True, help=text)
        add_candidates(parser)

    def inputs(self, args: argparse.Namespace) -> Inputs:
        """The files that the flags name. Raises InputError where the output is one of them."""
        found = super().inputs(args)
        if args.rules in (None, BUILT_IN):
            return found
        check_apart(args.output, rules=args.rules)
        return [*found, ("rules", args.rules)]

    def training(self, args: argparse.Namespace) -> Training:
        """Reads an ontology or rules, or learns patterns. Raises InputError where they cannot be used."""
        if args.rules is None and (args.dev or args.candidates):
            raise InputError("needs --rules", "--dev" if args.dev else "--candidates")
        if args.ontology and (args.train or args.rules):
            raise InputError("give either --ontology, or --train to learn one", "--ontology")
        if bool(args.train) != bool(args.match):
            missing, given = ("--match", "--train") if args.train else ("--train", "--match")
            raise InputError(f"needs {missing}, too: patterns are learned from dialogues and knowledge base", given)
        self.inputs(args)
        if args.rules is not None:
            return self._scripted(args)
        from parapet.evaluation.models.babi.rules import files_of_rules, learned_card
        from parapet.evaluation.models.babi.saving import Card

        if args.train:
            card = learned_card(args.train, args.match)
        else:
            ontology = _ontology(args.ontology) if args.ontology is not None else ""
            card = Card(model=self.model, ontology=ontology)
        return self.of_card(args, card, {}, files_of_rules(card))

    def _scripted(self, args: argparse.Namespace) -> Training:
        """With rules from a file."""
        from parapet.evaluation.models.babi.scripts import built_in_rules, files_of_script, scripted_card

        if not args.train:
            raise InputError("needs --train and --match: patterns are extracted from the training set", "--rules")
        data = built_in_rules() if args.rules == BUILT_IN else _bytes(args.rules)
        card: Card = scripted_card(data, args.rules, args.train, args.dev or (), args.match, args.candidates)
        options = {"rules": args.rules if args.rules == BUILT_IN else "a file"}
        return self.of_card(args, card, options, files_of_script(card))


def _ontology(path: str) -> str:
    """The content of a file that is an ontology. Raises InputError."""
    from parapet.transforms.restaurants.ontology import read_ontology

    data = _bytes(path)
    read_ontology(data, path, simulated=False)
    return data.decode("utf-8-sig")


def _bytes(path: str) -> bytes:
    if not is_there(path) or not as_path(path).is_file():
        raise InputError("there is no such file", path)
    return read_whole(as_path(path))
