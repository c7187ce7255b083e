"""The languages of texts: other languages than English are recognised and left as they are, and nothing gets lost."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, corpus, dialogue, frame, refused, rows_of, run, sample_dialogues, turn, write

import parapet
from parapet.schemas.layout import sample_root
from parapet.transforms.perturb.corpora import language_of

# What users say in two dialogues of three turns in each language.
LANGUAGES = ("es", "de", "it", "nl", "pt", "pl", "fr", "ja", "zh", "ru", "ko", "ar", "sv")
TALKS = """\
Busco un restaurante italiano en Madrid para hoy. | Somos cuatro personas, a las nueve. | Sí, perfecto, muchas gracias.
¿Me puedes reservar un taxi al aeropuerto? | Salgo del hotel Ritz a las seis. | Vale, adiós.
Ich suche ein italienisches Restaurant in Berlin. | Wir sind vier Personen, um acht Uhr. | Ja, das passt, vielen Dank.
Kannst du mir ein Taxi zum Flughafen bestellen? | Ich fahre um sechs am Hotel Adlon los. | Gut, tschüss.
Cerco un ristorante francese a Roma per stasera. | Siamo in quattro, alle otto. | Sì, va benissimo, grazie mille.
Mi puoi prenotare un taxi per l'aeroporto? | Parto dall'albergo alle sei. | Va bene, arrivederci.
Ik zoek een restaurant in Amsterdam voor vanavond. | We zijn met vier personen, om acht uur. | Ja, prima, dank je wel.
Kun je een taxi naar het vliegveld voor me bestellen? | Ik vertrek om zes uur bij het hotel. | Goed, tot ziens.
Procuro um restaurante italiano em Lisboa. | Somos quatro pessoas, às oito horas. | Sim, está ótimo, muito obrigado.
Pode reservar um táxi para o aeroporto? | Saio do hotel às seis. | Está bem, adeus.
Szukam włoskiej restauracji w Krakowie na dziś wieczór. | Będą cztery osoby, o ósmej. | Tak, świetnie, dziękuję bardzo.
Czy możesz zamówić taksówkę na lotnisko? | Wyjeżdżam z hotelu o szóstej. | Dobrze, do widzenia.
Je cherche un restaurant à Lyon pour ce soir. | Nous sommes quatre, à huit heures. | Oui, c'est parfait, merci beaucoup.
Pouvez-vous réserver un taxi pour l'aéroport ? | Je pars de l'hôtel à six heures. | Très bien, au revoir.
今夜、東京でイタリア料理のレストランを探しています。 | 四人で、八時からお願いします。 | はい、それでお願いします。
空港までタクシーを予約してください。 | ホテルを六時に出ます。 | わかりました、さようなら。
我想找一家今晚的意大利餐厅。 | 四个人，八点钟。 | 好的，谢谢。
请帮我订一辆去机场的出租车。 | 我六点从酒店出发。 | 好，再见。
Ищу итальянский ресторан в Москве на сегодня вечером. | Нас четверо, к восьми часам. | Да, отлично, большое спасибо.
Закажите, пожалуйста, такси в аэропорт. | Я выезжаю из гостиницы в шесть. | Хорошо, до свидания.
오늘 저녁 서울에 있는 이탈리아 식당을 찾고 있어요. | 네 명이고 여덟 시예요. | 네, 좋아요, 감사합니다.
공항까지 택시를 예약해 주세요. | 여섯 시에 호텔에서 출발해요. | 알겠어요, 안녕히 계세요.
أبحث عن مطعم إيطالي في القاهرة لهذا المساء. | نحن أربعة أشخاص، الساعة الثامنة. | نعم، ممتاز، شكرا جزيلا.
هل يمكنك حجز سيارة أجرة إلى المطار؟ | أغادر الفندق في السادسة. | حسنا، مع السلامة.
Jag letar efter en restaurang i Stockholm i kväll. | Vi är fyra, klockan åtta. | Ja, det blir bra, tack så mycket.
Kan du boka en taxi till flygplatsen? | Jag åker från hotellet klockan sex. | Okej, hej då.
"""
# English mixed with another language, and languages without word frequencies.
MIXED = {
    "Hi, ich brauche ein Hotel in Berlin, please. For two nights, zwei Personen. Ja, sounds good, danke.": "de",
    "Hola, quiero book a table para dos. At seven de la tarde please. Sí, that works, gracias.": "es",
    "Das Meeting ist online, ich brauche ein Update zum Ticket. Service ist top.": "de",
    "QUIERO UN TAXI AL AEROPUERTO": "es",
    "Jeg vil gjerne bestille et rom i Bergen. To netter, takk.": "nb",
    "Nataka kuweka chumba cha hoteli Nairobi. Kwa usiku mbili. Ndiyo, asante.": "sw",
    "Hoffwn archebu bwrdd i ddau. Wyth o'r gloch. Ie, diolch.": "cy",
    "ฉันต้องการจองโต๊ะสำหรับสองคน": "th",
}
SHORT = (
    *("ok", "", "La Jolla", "Check Kuala Lumpur.", "thnaks", "Call Nguyễn Văn Minh", "Hotel 東京 Shinjuku"),
    *("Amelie. Le Fabuleux Destin d'Amélie Poulain", "gimme sth cheap lol nah k thx bye"),
    *("u got any rooms 4 2nite?? idk mayb downtown ty", "I WANT A TABLE FOR TWO IN BOSTON"),
)
ALONE = ("café", "naïve", "🙂", "👍🏽", "👨‍👩‍👧", "–", "São Paulo", "…", "€20", "“ok”", "½")


def talks_in(language):
    first = 2 * LANGUAGES.index(language)
    return [line.split(" | ") for line in TALKS.splitlines()[first : first + 2]]


def dialogues_in(language):
    return [dialogue(f"{language}_{i}", *map(said, texts)) for i, texts in enumerate(talks_in(language))]


def said(text):
    return turn("USER", text, frame("Bikes_1"))


@cases("language", *LANGUAGES)
def test_dialogues_in_other_languages_are_recognised(language):
    assert {language_of(" ".join(texts)) for texts in talks_in(language)} == {language}
    with pytest.raises(parapet.InputError, match=rf"only knows texts in en, but 2 of 2 dialogues .*\({language}\)"):
        parapet.perturb_text([" ".join(texts) for texts in talks_in(language)], "verbose")


@cases("text language", *MIXED.items())
def test_mixed_texts_and_further_languages_are_recognised(text, language):
    assert language_of(text) == language


def test_english_is_never_taken_for_another_language(real_data):
    roots = [sample_root(), *(Path(real_data) / name for name in ("sgd", "sgd_more"))]
    for file in (file for root in roots for file in root.rglob("dialogues_*.json")):
        for talk in json.loads(file.read_bytes()):
            texts = [of["utterance"] for of in talk["turns"] if of["speaker"] == "USER"]
            assert language_of(" ".join(texts)) == "en", talk["dialogue_id"]
            assert {language_of(text) for text in texts} <= {"en", ""}, talk["dialogue_id"]


@cases("text", *SHORT)
def test_names_and_short_answers_are_of_no_other_language(text):
    assert language_of(text) in ("en", "")


@cases("name", "typos", "verbose", "simple", "paraphrase", "unseen_entities", "ood", "speech_errors")
def test_a_corpus_in_another_language_is_refused(name, tmp_path):
    here = corpus(tmp_path / "sgd", train=dialogues_in("fr"), test=dialogues_in("fr"))
    assert f"--sgd: {name} only knows texts in en" in refused("perturb", name, sgd=here, output=tmp_path / "out")
    messages = [{"role": "user", "content": "Je voudrais une table, s'il vous plaît."}]
    chats = write(tmp_path / "chats.jsonl", [{"messages": messages}])
    if name in ("typos", "verbose", "simple", "paraphrase"):
        assert "--messages: " in refused("perturb", name, messages=chats, output=tmp_path / "out")
        tasks = [{"id": "t_0", "question": [[{"role": "user", "content": "请帮我订一辆车"}]], "function": []}]
        refused("perturb", name, tasks=write(tmp_path / "tasks.jsonl", tasks), output=tmp_path / "out", status=(1, 2))


@pytest.mark.parametrize("name", ["typos", "verbose", "paraphrase", "language_variations", "unseen_entities", "ood"])
def test_single_dialogues_in_other_languages_stay_as_they_are_and_are_counted(name, tmp_path):
    others = [*dialogues_in("de")[:2], *dialogues_in("ja")[:1]]
    here = corpus(tmp_path / "sgd", train=sample_dialogues("train"), test=[*sample_dialogues(), *others])
    flags = {"rates": "0.1"} if name == "ood" else {}
    result = run("perturb", name, sgd=here, output=tmp_path / "out", **flags)
    assert result.json("statistics.json")["other_languages"] == {"de": 2, "ja": 1}
    assert "3 dialogues in other languages than en (de 2, ja 1)" in result.errors
    files = [json.loads(file.read_bytes()) for file in result.folder.rglob("test/dialogues_001.json")]
    assert files
    for dialogues in files:
        assert [talk for talk in dialogues if talk["dialogue_id"][:3] in ("de_", "ja_")] == others
        assert dialogues[:5] != sample_dialogues()[:5] or len(files) > 1
    assert list(parapet.perturb(here, "typos").dialogues("test"))[-3:] == others


@pytest.mark.parametrize("name", ["typos", "verbose", "simple", "paraphrase"])
def test_single_turns_in_other_languages_stay_as_they_are(name, tmp_path):
    french = "Plutôt à vingt heures, s'il vous plaît."
    texts = ("I would like to book a table for two in Lyon please.", french, "Could you find me a taxi, please?")
    here = corpus(tmp_path / "sgd", test=[dialogue("1", *map(said, texts))])
    result = run("perturb", name, sgd=here, output=tmp_path / "out")
    (turns,) = (talk["turns"] for talk in result.dialogues(f"{name}/test").values())
    assert [new["utterance"] == text for new, text in zip(turns, texts, strict=True)] == [False, True, False]
    if name in ("typos", "verbose"):
        assert [row["reason"] for row in result.rows(f"{name}/turns/**/*.parquet")][1] == "other_language"


def test_short_messages_of_a_task_in_another_language_stay_as_they_are(tmp_path):
    texts = {
        "t_0": ("Please book me a cheap room in Lima.", "Thank you very much for that.", "From Friday, please."),
        "t_1": ("Quiero reservar una habitación en Lima.", "Dos", "No, gracias"),
    }
    write(tmp_path / "possible_answer/tasks.jsonl", [{"id": name, "ground_truth": []} for name in texts])
    tasks = [
        {"id": name, "question": [[{"role": "user", "content": text}] for text in of], "function": []}
        for name, of in texts.items()
    ]
    result = run("perturb", "verbose", tasks=write(tmp_path / "tasks.jsonl", tasks), output=tmp_path / "out")
    english, spanish = rows_of(result.folder / "verbose/tasks.jsonl")
    assert spanish == tasks[1]
    assert english != tasks[0]
    assert "3 messages in other languages than en" in result.errors


def test_turns_that_others_have_rewritten_may_be_in_any_language(tmp_path):
    here = corpus(tmp_path / "sgd", train=dialogues_in("fr"), test=dialogues_in("fr"))
    lines = [
        {"dialogue_id": talk["dialogue_id"], "turn": i, "kind": "verbose", "utterance": f"{of['utterance']} Voilà."}
        for talk in dialogues_in("fr")
        for i, of in enumerate(talk["turns"])
    ]
    rewritten = write(tmp_path / "rewritten.jsonl", lines)
    result = run("language_variations", sgd=here, rewritten=rewritten, env="none", output=tmp_path / "out")
    assert all(of["utterance"].endswith("Voilà.") for talk in result.dialogues().values() for of in talk["turns"])


@given(st.data(), st.sampled_from(["typos", "verbose", "simple", "paraphrase"]))
def test_no_accent_emoji_or_mark_is_lost(data, name):
    texts = [of["utterance"] for talk in sample_dialogues() for of in talk["turns"] if of["speaker"] == "USER"]
    words = data.draw(st.sampled_from(texts)).split(" ")
    at = data.draw(st.integers(0, len(words)))
    text = " ".join([*words[:at], data.draw(st.sampled_from(ALONE)), *words[at:], "Thanks! 🎉"])
    kept = Counter(char for char in text if not char.isascii() and char not in "’‘")
    assert not kept - Counter(parapet.perturb_text(text, name)), text


@pytest.mark.parametrize("answer", ["I want a table at cafe Zurich.", "I want a table at caf' Z'rich - -."])
def test_turns_that_lose_characters_are_refused(answer):
    from parapet.transforms.perturb.rewrites import CHARACTERS, refusal

    assert refusal("I would like a table at café Zürich 🙂.", answer) == CHARACTERS
