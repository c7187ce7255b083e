"""What a domain understands of another's turns; turns of SGD that nobody would call foreign are not."""

import re
from collections import Counter

import kit
import msgspec
from kit import act, cases, frame, state

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.layout import read_root
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.perturbation.corpora import dialogues_of, domains_of, read_corpus
from parapet.transforms.perturbation.user_turns import user_turns
from parapet.transforms.perturbations.ood import language
from parapet.transforms.perturbations.ood.language import TurnContent, WordCounts, content_of_turn, key_of, schemas_of
from parapet.transforms.perturbations.ood.pool import judged, merged, utterance_of
from parapet.transforms.perturbations.ood.standing import stands_alone

SLOTS = {
    "Hotels": ["phone_number", "address", "pets_allowed"],
    "Restaurants": ["phone_number", "address", "cuisine"],
    "Salons": ["phone_number", "address", "is_unisex"],
    "Songs": ["artist", "album"],
    "Flights": ["departure", "airline"],
}
SERVICES = [
    Service(f"{domain}_1", "", [Slot(name, "") for name in slots], [Intent(f"Find{domain}", "")])
    for domain, slots in SLOTS.items()
]
TURNS = [
    *((f"a hotel in town number {n}", ("Hotels",)) for n in range(40)),
    *((f"what is their phone number again {n}", ("Hotels",)) for n in range(20)),
    *((f"do they take dogs {n}", ("Hotels",)) for n in range(20)),
    *((f"something to eat at {n}", ("Restaurants",)) for n in range(40)),
    *((f"a haircut for person {n}", ("Salons",)) for n in range(40)),
    *((f"play me song {n}", ("Songs",)) for n in range(40)),
    *((f"fly me to gate {n}", ("Flights",)) for n in range(40)),
    ("play something else", ("Restaurants",)),
]


def saying(text, domain, slots=()):
    (said,) = user_turns(dialogue(text, domain, [("INFORM", slot) for slot in slots]))
    return content_of_turn(said)


def dialogue(text, domain, actions=(), values=None):
    made = frame(f"{domain}_1", *(act(*one) for one in actions), state=state(f"Find{domain}", **values or {}))
    return msgspec.convert(kit.dialogue("1", kit.turn("USER", text, made)), Dialogue)


def languages_of(turns, schemas):
    """Of (key, domains that a turn with it speaks of), each once."""
    counts = language.DomainCounts()
    for key, spoken_of in turns:
        counts.add(key, (spoken_of,))
    return language.Languages(counts, schemas)


LANGUAGES = languages_of(TURNS, schemas_of(SERVICES))
OTHERS = {*SLOTS} - {"Hotels"}


@cases(
    "text slots domains",
    ("What is their phone number?", [], set()),  # three schemas have it
    ("At 5 pm tomorrow for two.", [], set()),
    ("Is it number 4?", [], set()),
    ("Any giraffes?", [], set()),  # no hotel turn has it: it is as rare there
    ("Do they take dogs?", [], OTHERS),
    ("Do they take dogs?", ["address"], {"Songs", "Flights"}),  # the others have the slot
    ("Do they take dogs?", ["pets_allowed"], OTHERS),
    ("What hotels play there?", [], OTHERS),
)
def test_what_is_foreign(text, slots, domains):
    assert LANGUAGES.foreign_to(saying(text, "Hotels", slots)) == domains


def test_the_name_of_a_domain_needs_no_evidence_and_other_words_do():
    """A corpus of a few turns: what the service is called is foreign elsewhere; a word that was said twice is not."""
    few = languages_of([("a hotel", ("Hotels",)), ("a dog", ("Hotels",)), ("a song", ("Songs",))], schemas_of(SERVICES))
    assert few.foreign_to(saying("the hotel", "Hotels")) == {"Songs"}
    assert few.foreign_to(saying("a dog", "Hotels")) == set()
    assert few.foreign_to(saying("an artist", "Songs")) == set()  # a slot's name is no evidence by itself


def test_values_are_no_content():
    (said,) = user_turns(dialogue("Hotels near the Opera House", "Hotels", (), {"area": ["Opera House"]}))
    assert content_of_turn(said) == TurnContent(("Hotels",), ("hotel", "near"), (), False)


def test_the_same_words_of_two_domains_are_of_both():
    hotels, flights = saying("the fee", "Hotels"), saying("the fee", "Flights", ["airline"])
    one = merged([utterance_of("The fee", "b", content=flights), utterance_of("the fee", "a", content=hotels)])
    assert one.content == TurnContent(("Flights", "Hotels"), hotels.words, hotels.slots, False, True)


ALONE = """I need a bus to Fresno, can you find one?|I want to rent a car and keep it until the 8th of March.
Is there any rain forecast for the weekend in Paris?|Some friends told me that they love the album Mercury Lane.
Hi there, I'd like to book the Alder Inn this Friday."""
BACK = """Where's the venue at?|I want to reserve a hotel there.|Do you know whether it is furnished?|2 bedrooms.
Can you find me another song, please?|What's the rent, and do they allow pets?|I like that one a lot.|I need two please.
Actually, make that two tickets.|What station does this bus go to?|Leaving from Anaheim, on Monday.
Auntie Mame sounds good.|I would like a show of it on Saturday.|I want to send the money to Ann."""


@cases("texts alone", (ALONE, True), (BACK, False))
def test_what_stands_alone(texts, alone):
    assert [text for text in re.split(r"[|\n]", texts) if stands_alone(text) != alone] == []


def judged_turns(root, splits, one_in=1):
    """What becomes of the turns of a corpus as a source of its own, for each different one, of every n-th dialogue.

    Near-duplicates are not looked for.
    """
    schemas = schemas_of(service for of in read_root(root) for service in of.services)
    found = {}
    words, spoken_of = WordCounts(), set()
    for file in read_corpus(root, splits).files:
        for *_, one in list(dialogues_of(file))[::one_in]:
            assert isinstance(one, Dialogue)
            domains = domains_of(one)
            for turn in user_turns(one):
                said = content_of_turn(turn)
                key = key_of(turn.utterance)
                spoken_of.add((key, said.domains))
                found.setdefault(key, []).append(utterance_of(turn.utterance, "x", domains, (), said))
    for key, same in found.items():
        words.add(set(key.split()), {one.domains for one in same})
    vocabulary, languages = language.Vocabulary(words), languages_of(spoken_of, schemas)
    judgements = [judged(merged(same), vocabulary, languages) for same in found.values()]
    return [(judgement.status, judgement.utterance) for judgement in judgements]


def test_sgd(real_data):
    """Of services that no threshold was chosen on: what may be asked anywhere is understood, most requests are not."""
    found = judged_turns(real_data / "sgd_more", ["train"], 2)
    statuses = Counter(status for status, _ in found)
    assert min(statuses[status] for status in ("kept", "answer", "understood", "generic")) > 30
    kept = [one for status, one in found if status == "kept"]
    assert len(kept) > 0.2 * len(found)
    anywhere = re.compile(
        r"(?:what is|what's|can i (?:get|have)|may i know|give me) (?:the|their|its) (?:phone number|address|price)\W*",
        re.I,
    )
    assert sum(bool(anywhere.fullmatch(one.text)) for _, one in found) > 9
    texts = [one.text for one in kept]
    assert not [text for text in texts if anywhere.fullmatch(text)]
    assert not [text for text in texts if re.match(r"(?:yes|no|thanks|thank you)\b", text, re.I)]
    for name, domain in (("flight", "Flights"), ("song", "Music"), ("restaurant", "Restaurants"), ("bus", "Buses")):
        having = [one for one in kept if name in key_of(one.text).split() and domain in one.domains]
        assert len(having) > 5
        assert not {"Banks", "Calendar"}.intersection(*(one.about for one in having))


def test_what_several_domains_say_is_of_none():
    """Half of the others say it: it is not characteristic, however often its own domain has it."""
    turns = [*TURNS, *((f"do they take dogs {n}", (domain,)) for n in range(3) for domain in ("Songs", "Flights"))]
    assert languages_of(turns, schemas_of(SERVICES)).foreign_to(saying("take dogs", "Hotels")) == set()
