"""Whole systems: belief states as parts, words and token ids, placeholders, decoding that depends on nothing else."""

import kit
import msgspec
import multiwoz_corpus
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inn_toy import CITIES, SERVICE, STARS, dialogues, inns, texts
from kit import ONE_EPOCH, SEED, THOROUGH, raised
from tiny_checkpoints import save_gpt2, save_llama

from parapet.evaluation.dst import frames as state_frames
from parapet.evaluation.dst.frames import Dialogue as Reference
from parapet.evaluation.dst.frames import State
from parapet.evaluation.models import damd, saving, soloist, systems
from parapet.evaluation.models.configs import DamdConfig, SoloistConfig
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.evaluation.response.goals import Knowledge, Response, reference_of
from parapet.evaluation.response.task import SetInputs, evaluate
from parapet.schemas.dialogue import Action, Dialogue, Turn
from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root, services_by_name
from parapet.schemas.service import parse_service
from parapet.transforms.core.checkpoints import inspect
from parapet.transforms.perturb.ood.plan import FALLBACKS

OF = systems.SERVICE
INNS = [row for city in CITIES for stars in STARS for row in inns(city, stars)]
KNOWN = systems.Database(Knowledge({"Inns_1": INNS}))
NAMES = st.sampled_from(["a", "b c", "Ü_1", "<x>"])


def states_of(names, values):
    one = st.lists(values, min_size=1, max_size=1)
    return st.builds(State, names, st.lists(names, unique=True).map(sorted), st.dictionaries(names, one, max_size=3))


TYPED = msgspec.convert(dialogues(), list[Dialogue])
STEPS = [step for one in TYPED for step in systems.steps_of(one, KNOWN)]


@settings(max_examples=40)
@given(st.dictionaries(NAMES, states_of(NAMES, NAMES), max_size=3))
def test_a_belief_state_comes_back(belief):
    assert systems.belief_of(systems.belief_parts(belief, "")) == belief


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(systems.MARKS), st.sampled_from(["", "a", "b"]))))
def test_any_parts_are_a_belief_state(told):
    for name, state in systems.belief_of(told).items():
        assert name
        assert all(len(values) == 1 and values[0] for values in state.slot_values.values())
        assert len(set(state.requested_slots)) == len(state.requested_slots)


CELLS = st.sampled_from(["", "a", "A", "b", "dontcare", "09:15", "12:00"])
ROWS = st.lists(st.dictionaries(st.sampled_from(["x", "y", "arriveBy"]), CELLS), max_size=6)


@settings(max_examples=40)
@given(ROWS, st.dictionaries(st.sampled_from(["x", "y", "arriveBy", "z"]), st.lists(CELLS, min_size=1, max_size=2)))
def test_as_many_as_are_found(rows, wanted):
    knowledge = Knowledge({"X": rows}, [("X", "x", "a", "said"), ("X", "x", "b", "b")])
    meant = {slot: knowledge.meant("X", slot, values) for slot, values in wanted.items()}
    assert systems.Database(knowledge).matches("X", wanted) == len(knowledge.find("X", meant))


def turn(text, spans, acts):
    slots = [{"slot": slot, "start": start, "exclusive_end": end} for slot, start, end in spans]
    actions = [kit.act("INFORM", slot, value) for slot, value in acts]
    return msgspec.convert(kit.turn("SYSTEM", text, kit.frame("Inns_1", *actions, slots=slots)), Turn)


def test_idle_services_are_in_no_belief():
    """MultiWOZ 2.2 has a frame of every service in every user turn."""
    one = msgspec.convert(multiwoz_corpus.dialogue(1, ["hotel", "taxi"], lists_all=True), Dialogue)
    services = [[text for mark, text in step.belief if mark == OF] for step in systems.steps_of(one, KNOWN)]
    assert services == [["hotel"]] * 3 + [["hotel", "taxi"]] * 2


def test_the_steps_of_a_dialogue():
    first, second, third = systems.steps_of(TYPED[0], KNOWN)
    assert [step.turn for step in (first, second, third)] == [0, 2, 4]
    assert second.response == "there is [inns_1_inn_name] only ."
    assert second.database == ((OF, "Inns_1"), (systems.VALUE, "one"))
    assert third.belief[-1] == (systems.ASKED, "phone")
    hi = Reference("1", [state_frames.Turn("USER", [], "hi")])
    assert next(systems.asked_of(hi)) == systems.Step("1", 0, (("<|user|>", "hi"),))
    short = msgspec.structs.replace(TYPED[0], turns=TYPED[0].turns[:3])
    assert [step.response for step in systems.steps_of(short, KNOWN)] == ["how many stars ?", None]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return str(save_gpt2(tmp_path_factory.mktemp("gpt2") / "tiny", texts()))


@pytest.fixture(scope="module")
def model(gpt2):
    """Of random weights: what it writes is long, and depends on all that is before it."""
    tokenizer, model = saving.load(inspect(gpt2, saving.BY_MODEL["soloist"]), soloist.MODEL_CLASS)
    tokens = soloist.Tokens(tokenizer)
    torch.manual_seed(SEED)
    model.resize_token_embeddings(len(tokenizer))
    return soloist.Soloist(soloist.Card(length=60, belief=20, response=9), model, tokens, KNOWN, torch.device("cpu"), 8)


def test_a_belief_that_leaves_the_history_too_little_room_is_told(model):
    """192 positions: 160 of a history and 20 of a belief state leave no 15 for a response."""
    card = soloist.Card(length=160, belief=20, response=15)
    tight = soloist.Soloist(card, model.model, model.tokens, KNOWN, torch.device("cpu"), 8)
    steps = [systems.Step("1", 0, (("<|user|>", "inn " * n),)) for n in (9, 157)]
    model.tokens.learn(text for step in steps for _, text in step.history)
    assert 156 < len(model.tokens.ids(steps[1].history)) < 160  # with the mark behind it, not too many
    assert [one.long for one in tight.answers(steps)] == [False, True]


@pytest.mark.parametrize("save", [save_gpt2, save_llama])
def test_padding_changes_nothing_and_the_cache_neither(save, tmp_path):
    """Against the plain way: each prompt alone, and all of it read again for each token."""
    folder = str(save(tmp_path / "tiny", texts()))
    _, model = saving.load(inspect(folder, saving.BY_MODEL["soloist"]), soloist.MODEL_CLASS)
    prompts = [[5, 6, 7, 8, 9, 10], [5], [30, 31, 32]]
    with torch.inference_mode():
        for prompt, written in zip(prompts, soloist.go_on(model.double(), prompts, 0, 12, 3), strict=True):
            row = list(prompt)
            while len(row) < len(prompt) + 12 and (token := int(model(torch.tensor([row])).logits[0, -1].argmax())):
                row.append(token)
            assert written == row[len(prompt) :]


def test_what_real_annotation_tells(real_data):
    """True belief states come back as they were, and with delexicalised responses nearly all goals are met."""
    source = systems.read_source(str(real_data / "sgd"), "dev")
    if not THOROUGH:
        source = msgspec.structs.replace(source, dialogues=source.dialogues[::4])
    said = {}
    for dialogue in source.dialogues:
        for step in systems.steps_of(dialogue, source.database):
            belief = systems.belief_of(step.belief)
            for frame in dialogue.turns[step.turn].frames:
                assert frame.state
                assert belief[frame.service].active_intent == frame.state.active_intent
                assert set(belief[frame.service].requested_slots) == set(frame.state.requested_slots)
                told = {slot: values[0] for slot, values in belief[frame.service].slot_values.items()}
                assert told.keys() == frame.state.slot_values.keys()
                assert all(value in frame.state.slot_values[slot] for slot, value in told.items())
            state = {name: {slot: tuple(of) for slot, of in one.slot_values.items()} for name, one in belief.items()}
            said.setdefault(dialogue.dialogue_id, []).append(Response(step.turn + 1, step.response or "", state))
    splits = [one for one in read_root(real_data / "sgd") if one.split == "dev"]
    reference = reference_of(source.dialogues, services_by_name(splits))
    metrics = evaluate({"": SetInputs(reference, said)}, "13a").metrics["#ALL"]
    assert metrics["inform"] > 0.99
    assert metrics["success"] > 0.99


def learner_of(checkpoint, **options):
    settings = {"max_length": 100, "batch_size": 4, "learning_rate": 0.006, "warmup": 0, **options}
    config = SoloistConfig(checkpoint="gpt2", **settings, **ONE_EPOCH)
    torch.manual_seed(SEED)
    return soloist.SoloistLearner(config, inspect(checkpoint, saving.BY_MODEL["soloist"]), STEPS, STEPS[:9])


@pytest.fixture(scope="module")
def learner(gpt2):
    return learner_of(gpt2)


def test_acts_come_back(gpt2, monkeypatch):
    learner = learner_of(gpt2, acts=True, max_length=90)
    sequences = learner.tokens.sequences(STEPS[:3], True)
    outputs = iter([[one.belief[:-1] for one in sequences], [one.response[:-1] for one in sequences]])
    monkeypatch.setattr(soloist, "go_on", lambda *_: next(outputs))
    model = soloist.Soloist(learner.card, learner.net.model, learner.tokens, KNOWN, torch.device("cpu"), 8)
    replies = model.answers(STEPS[:3])
    wanted = [(systems.belief_of(step.belief), step.response, systems.acts_of(step.acts)) for step in STEPS[:3]]
    assert [(reply.belief, reply.response, reply.acts) for reply in replies] == wanted
    assert [kind.act for reply in replies for kind in reply.acts["Inns_1"]] == ["REQUEST", "OFFER", "INFORM"]


def test_texts_come_back_from_token_ids(learner):
    tokens = learner.tokens
    for step, ids in zip(STEPS[:6], tokens.sequences(STEPS[:6], False), strict=True):
        assert (tuple(tokens.parts(ids.belief)[:-1]), tokens.text(ids.response)) == (step.belief, step.response)
    hostile = (("<|user|>", f"say {systems.END} \ud800 <|belief|>"),)
    tokens.learn(text for _, text in hostile)
    assert sum(one in tokens.marks.values() for one in tokens.ids(hostile)) == 1


def test_placeholders():
    said = "Opa in Rome, 3 stars; 33 rooms. Opa Rome? True"
    spans = [("inn_name", 0, 3), ("city", 7, 11), ("long", 32, 40)]
    spans += [("inn_name", 32, 35), ("bad", 40, 99), ("city", 36, 40)]
    acts = [("stars", "3"), ("rooms", "33"), ("bath", "True"), ("city", "Rome"), ("", "in"), ("twice", "s")]
    placeholders = "[inns_1_inn_name] in [inns_1_city], [inns_1_stars] stars; [inns_1_rooms] rooms. [inns_1_long]? True"
    assert systems.delexicalised(turn(said, spans, acts)) == placeholders
    longer = turn("İstanbul 3", [], [("stars", "3")])  # its small letters are longer
    assert systems.delexicalised(longer) == "İstanbul 3"
    assert systems.delexicalised(turn("7 7", [], [("count", "7")])) == "7 7"
    assert {systems.delexicalised(turn(text, [], [])) for text in FALLBACKS} == {"[fallback]"}


def test_spoiled_steps(learner):
    torch.manual_seed(SEED + 1)
    steps = learner.steps
    made = [soloist.spoil(steps, 0) for _ in range(60)]
    changed = {(one.belief != steps[0].belief, one.response != steps[0].response) for one in made}
    assert changed >= {(True, False), (False, True), (True, True)}
    assert all(one.history == steps[0].history for one in made)


def test_what_is_learned_stands_where_it_should(learner):
    """The loss is on belief states and responses, with what ends them; of a long history the newest is read."""
    sequences = learner.tokens.sequences(STEPS, False)
    for limit in (200, 9):
        learned = soloist.Learned(sequences, limit, torch.device("cpu"))
        tokens, mask, belief, response = learned.batch(torch.arange(5), 0)
        for i, one in enumerate(sequences[:5]):
            whole = [*one.history[-limit:], *one.belief, *one.database, *one.response]
            assert tokens[i][mask[i].bool()].tolist() == whole
            assert (tokens[i][belief[i]].tolist(), tokens[i][response[i]].tolist()) == (one.belief, one.response)
    longest = max(len(one.belief) for one in sequences), max(len(one.response) for one in sequences)
    assert (learner.card.belief, learner.card.response) == (longest[0] * 5 // 4 + 1, longest[1] * 5 // 4 + 1)


def test_how_many_entities_there_are():
    def database(**wanted):
        belief = {"Inns_1": State("", [], {slot: [value] for slot, value in wanted.items()}), "X": State("", [], {})}
        return " ".join(text for _, text in systems.database_parts(belief, KNOWN))

    two = [database(city=city, stars="two") for city in ("Rome", "oslo", "Bonn", "Lima")]
    assert two == ["Inns_1 one", "Inns_1 few", "Inns_1 many", "Inns_1 none"]
    assert database(city="Rome") == database(city="dontcare") == "Inns_1 many"
    assert database(city="Bonn", inn_name="Bonn Inn 3") == "Inns_1 one"
    assert [systems.how_many(n) for n in (0, 1, 2, 5, 6)] == ["none", "one", "few", "few", "many"]


def test_a_batch_changes_nothing(model):
    steps = [*STEPS[:4], systems.Step("long", 0, (("<|user|>", "an inn " * 60),))]
    model.batch = 8
    many = model.answers(steps)
    model.batch = 1
    assert ([model.answers([step])[0] for step in steps], model.answers(steps[::-1])) == (many, many[::-1])
    assert [one.long for one in many] == [False] * 4 + [True]


def test_states_of_a_schema_that_has_other_slots(model):
    """What a variant's schema does not name is left out and counted."""
    service = parse_service({**SERVICE, "slots": SERVICE["slots"][:2], "intents": []})
    state = State("FindInn", ["phone"], {"stars": ["two"], "rooms": ["9"]})
    model.answers = lambda steps: [systems.Reply({"Inns_1": state}, "ok", False) for _ in steps]  # type: ignore[method-assign]
    try:
        reference = msgspec.convert(dialogues()[:1], list[Reference])
        states, lines, counts = systems.answered(reference, {"Inns_1": service}, model)
    finally:
        del model.answers
    found = msgspec.json.decode(states, type=Reference)
    assert found.turns[0].frames[0].state == State("FindInn", [], {"stars": ["two"]})
    assert dict(counts) == {"answered": 3, "frames": 3, "too_long": 0, "unknown_slots": 6}
    assert len(lines.splitlines()) == 3


def test_dev_is_what_would_be_written(learner):
    """The share of belief states right by one pass over the true ones is that of writing them token by token."""
    sequences = learner.tokens.sequences(STEPS[:9], False)
    model, end = learner.module.model, learner.tokens.marks["<|database|>"]
    beliefs = 0.0
    for _ in range(40):
        for batch in learner.batches(torch.Generator().manual_seed(SEED)):
            learner.optimiser.zero_grad()
            learner.loss(batch).backward()
            learner.optimiser.step()
        with torch.inference_mode():
            learner.module.eval()
            written = soloist.go_on(model, [one.history for one in sequences], end, 60, 4)
            beliefs = sum(ids == one.belief[:-1] for ids, one in zip(written, sequences, strict=True)) / 9
            learner.module.train()
        if beliefs:
            break
    learner.module.eval()
    with torch.inference_mode():
        found = learner.dev()
        right = total = 0
        for one in sequences:
            best = model(torch.tensor([one.row(200)])).logits[0, :-1].argmax(1)[-len(one.response) :].tolist()
            right, total = right + sum(a == b for a, b in zip(best, one.response, strict=True)), total + len(best)
    assert found == pytest.approx((beliefs + right / total) / 2)
    assert beliefs > 0


TEXTS = [damd.texts_of(step) for step in STEPS]


DAMD_NAMES = st.sampled_from(["a", "B_1", "Ü", "x y"])
VALUES = st.lists(st.from_regex(r"[\w$%.,:'!?]{1,6}", fullmatch=True), min_size=1, max_size=3).map(" ".join)


@settings(max_examples=60)
@given(st.dictionaries(DAMD_NAMES, states_of(DAMD_NAMES, VALUES), max_size=2))
def test_a_belief_state_comes_back_from_words_as_training_writes_it(belief):
    """With the letters' case and the spaces of its values, where no other value has the same words."""
    parts = systems.belief_parts(belief, "")
    surfaces = damd.surfaces_of([systems.Step("1", 0, (("<|user|>", ""),), parts)])
    written = damd.spelled(damd.parts_of(damd.span_of(parts)), (), surfaces, ())
    values = [(" ".join(damd.words_of(text)), text) for mark, text in parts if mark == systems.VALUE]
    if len({words for words, _ in values}) == len(values):
        assert systems.belief_of(written) == belief
    assert [mark for mark, _ in written] == [mark for mark, _ in parts]


def test_a_value_is_written_as_before_as_in_training_or_as_it_was_said():
    surfaces = {"city": {"san jose": "San José's"}, "stars": {"two": "2"}}

    def value(slot, words, before="", *said):
        parts, earlier = [(systems.SLOT, slot), (systems.VALUE, words)], [(systems.VALUE, before)] if before else []
        return damd.spelled(parts, earlier, surfaces, said)[1][1]

    assert value("city", "san jose", "San Jose", "SAN JOSE") == "San Jose"
    assert value("city", "san jose", "", "SAN JOSE") == "San José's"
    assert value("place", "san jose", "", "I said San  Jose!", "san jose") == "San  Jose"
    assert value("place", "6:30 p.m", "", "no", "at 6:30 P.M.?") == "6:30 P.M"
    assert value("place", "lost words", "", "words lost") == "lost words"


@settings(max_examples=60)
@given(st.text(max_size=12))
def test_no_word_of_a_text_is_a_name(text):
    """Nobody can say a mark or a placeholder, and every word can be written to a file."""
    for word in damd.words_of(text):
        assert word.encode()
        assert not word.startswith("<|")
        assert word == "[" or not word.startswith("[")


def test_a_users_values_are_replaced_by_placeholders():
    slots = [("city", "New York"), ("near", "York")]
    told = [part for slot, text in slots for part in ((systems.SLOT, slot), (systems.VALUE, text))]
    belief = [(OF, "Inns_1"), *told, (systems.VALUE, "")]
    said = damd.words_of("in new york , near York , york")
    assert damd.delexicalised(said, belief) == ["in", "[inns_1_city]", ",", "near", "[inns_1_near]", ",", "york"]
    assert damd.delexicalised([], belief) == []


def test_names_come_first_into_the_vocabulary_and_then_frequent_words():
    names = sorted({word for one in TEXTS for word in (*one.belief, *one.acts) if word[0] == "<"})
    placeholders = sorted({word for one in TEXTS for word in one.response or () if word[0] == "["} | {"[inns_1_stars]"})
    room = len(damd.SPECIAL) + len(names) + len(placeholders)
    assert damd.vocabulary_of(TEXTS, room).words == [*damd.SPECIAL, *names, *placeholders]
    assert len(damd.vocabulary_of(TEXTS, room + 3)) == room + 3
    assert {"please", "rome"} <= {*damd.vocabulary_of(TEXTS, 3000).words}
    raised(InputError, damd.vocabulary_of, TEXTS, room - 1, match="the names and placeholders alone are")


def damd_config(**own):
    plain = {"batch_size": 8, "learning_rate": 0.01, "epochs": 1, "patience": 1, "seed": str(SEED), "threads": 1}
    net = {"device": "cpu", "vocabulary": 3000, "embedding": 6, "hidden": 8}
    return msgspec.convert({**plain, **net, **own}, DamdConfig)


@pytest.fixture(scope="module")
def damd_learner():
    torch.manual_seed(SEED)
    return damd.DamdLearner(damd_config(), STEPS, STEPS[:9])


@pytest.fixture(scope="module")
def damd_model(damd_learner):
    """Of random weights: what it writes is long, and depends on all that is before it."""
    words = damd_learner.vocabulary.words
    card = damd.Card(words=words, surfaces={}, embedding=6, hidden=8, belief=14, acts=9, response=9)
    torch.manual_seed(SEED)
    net = damd.Net(len(words), 6, 8)
    for parameter in net.parameters():
        parameter.data *= 4  # of usual ones all states are alike
    return damd.Damd(card, net, KNOWN, torch.device("cpu"), 8)


def test_of_long_utterances_the_last_words_are_read(damd_model):
    said = [f"w{n}" for n in range(300)]
    step = systems.Step("x", 2, (("<|system|>", "hi"), ("<|user|>", " ".join(said))))
    assert damd.texts_of(step).user == said[100:]
    assert [damd_model.answers([one])[0].long for one in (step, STEPS[0])] == [True, False]


def test_acts_come_back_without_values():
    said = [("INFORM", "city", "Rome"), ("REQ_MORE",), ("INFORM", "stars", "2"), ("OFFER_INTENT", "intent", "Book")]
    frames = kit.frame("A", *(kit.act(*one) for one in [*said, ("INFORM", "city", "Oslo")])), kit.frame("B")
    parts = systems.act_parts(msgspec.convert(kit.turn("SYSTEM", "", *frames), Turn))
    assert [text for _, text in parts] == ["A", "INFORM", "city", "stars", "REQ_MORE", "OFFER_INTENT", "Book"]
    acts = [("INFORM", "city", []), ("INFORM", "stars", []), ("REQ_MORE", "", []), ("OFFER_INTENT", "intent", ["Book"])]
    assert systems.acts_of(damd.parts_of(damd.span_of(parts))) == {"A": [Action(*one) for one in acts]}
    lost = [(systems.ACT, "X"), (systems.SLOT, "s"), (OF, "A"), (systems.SLOT, "s"), (systems.VALUE, "v")]
    assert systems.acts_of(lost) == {"A": []}


def test_a_folder_of_damd_is_read_back(damd_model, tmp_path):
    (tmp_path / MODEL).write_bytes(saving.card_bytes(damd_model.card))
    (tmp_path / WEIGHTS).write_bytes(saving.weights_bytes(damd_model.net.state_dict()))
    assert damd.load(str(tmp_path), KNOWN, "cpu", 8).answers(STEPS[:3]) == damd_model.answers(STEPS[:3])
    card = (tmp_path / MODEL).read_bytes()
    (tmp_path / MODEL).write_bytes(card.replace(b'"acts": 9', b'"acts": -1'))
    raised(InputError, damd.check, str(tmp_path), match="is damaged, or was not written by Parapet")


def test_a_decoder_has_the_states_that_it_was_taught(damd_model):
    """What it writes, taught as if it were right, leads to the same states and is the most likely at each place."""
    net, (numbers, _) = damd_model.net, damd_model.vocabulary.numbered(TEXTS[1])
    rows = [numbers[name] for name in ("user", "previous", "before")]
    with torch.inference_mode():
        encoded = []
        for encoder, row in zip((net.user, net.utterance, net.span), rows, strict=True):
            encoded.append(net.encoded(encoder, torch.tensor([row, row]), torch.ones(2, len(row), dtype=torch.bool)))
        sources, first = [source for source, _ in encoded], encoded[0][1]
        written = net.decoded(net.belief, first, sources, most=12)
        taught = net.decoded(net.belief, first, sources, right=(written.numbers, written.mask))
        assert torch.allclose(written.states, taught.states)
        assert damd.likeliest(*net.belief.scores(taught.states, sources), 0).tolist() == written.numbers.tolist()


def test_a_batch_changes_nothing_of_damd(damd_model):
    steps = [*STEPS[:9], *(systems.Step("x", turn, (("<|user|>", "Zürich " * turn + "two"),)) for turn in (0, 2, 9))]
    damd_model.batch = 8
    many = damd_model.answers(steps)
    damd_model.batch = 1
    assert damd_model.answers(steps) == many
    assert [one for n in (0, 3, 6, 9) for one in damd_model.answers(steps[n : n + 3])] == many
    damd_model.batch = 8
    assert damd_model.answers(steps[6:] + steps[:6]) == many[6:] + many[:6]
    assert len({one.response for one in many}) > 1
    assert damd_model.answers([]) == []


def test_the_net_has_as_many_parameters_as_the_authors():
    """Theirs has an attention and two copies of spans that its settings switch off, and a pointer to bookings."""
    authors = 1_985_700  # experiments/all_multi_acts_sample3_sd666_lr0.005_bs80_sp5_dc3/config.json
    booking = 2 * 2 * 3 * 100  # two bits of the pointer, in two decoders with three gates
    never_used = (2 * 100 * 100 + 100 + 100) + 2 * (100 * 100 + 100)  # of the action decoder: an attention, two copies
    net = damd.Net(words=3000, embedding=50, hidden=100)
    assert sum(one.numel() for one in net.parameters()) == authors - never_used - booking == 1_944_100
