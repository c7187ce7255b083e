"""Speech errors: user turns as a recogniser transcribes them, with noise, at a given word error rate."""

from parapet.transforms.perturbation import Command, Option
from parapet.transforms.running import plugins

# Defaults: possible signal-to-noise ratios in dB; number of texts for calibration; maximum number of characters spoken.
RATIOS, SAMPLE, LONGEST = "10,6,4,2,0,-2,-4", 24, 1000
AUDIO = ("wav", "flac")
# Flags of only one engine.
FLAGS_OF = {"azure": ("azure_region", "azure_endpoint", "parallel_calls")}

_ENGINES = plugins.Names(plugins.SPEECH_ENGINES)
_ERRORS, _ENGINE, _AZURE = "errors", "engine", "--engine azure"

COMMAND = Command(
    "parapet.transforms.perturbations.speech.perturbation:SpeechErrors",
    "Replaces user turns by ASR transcripts: they are spoken, mixed with noise and recognised. "
    "One set of dialogues for each word error rate: OUT/SR-20/test/dialogues_001.json.",
    """\
  parapet speech_errors --wer 0.2 --output heard
  parapet speech_errors --sgd sgd --split dev --noise babble --reverberation 0.4 --audio flac --output heard
  parapet speech_errors --sgd sgd --engine azure --azure_region westeurope --output heard --dry_run""",
    {
        "output": (
            Option("audio", "also write the sound, in OUT/SR-20/audio", default="", choices=AUDIO),
            Option(
                "form",
                "transcripts as they are, or correctly recognised words as the original spells them",
                default="heard",
                choices=("heard", "restored"),
                rare=True,
            ),
            Option("cache", "folder of transcripts that are reused (default: OUT/.heard)", "DIR", rare=True),
        ),
        _ERRORS: (
            Option("wer", "word error rates, a set for each", "LIST", default="0.1,0.2,0.3"),
            Option("noise", "pink, white, babble, or a folder of recordings", "KIND", default="pink", apart=True),
            Option(
                "reverberation",
                "of the speaker's room: seconds until a sound has decayed by 60 dB, such as 0.4 (default: 0)",
                "SECONDS",
                default=0.0,
                type=float,
            ),
            Option("snr", f"signal-to-noise ratios to choose from, in dB (default: {RATIOS})", "LIST", rare=True),
            Option(
                "sample",
                f"texts that are transcribed first, to calibrate the rates (default: {SAMPLE})",
                "N",
                type=int,
                rare=True,
            ),
            Option(
                "longest",
                "maximum length of a turn that is spoken, in characters",
                "N",
                default=LONGEST,
                type=int,
                rare=True,
            ),
        ),
        _ENGINE: (
            Option(
                "engine", "engine of text to speech and ASR; embedded is offline", default="embedded", choices=_ENGINES
            ),
            Option(
                "voices",
                "voices of the engine, one for each dialogue; name, speed and pitch: heart,heart:1.1:0.9",
                "LIST",
                rare=True,
            ),
            Option("speaker", "text-to-speech engine (default: --engine)", "ENGINE", choices=_ENGINES, rare=True),
            Option("listener", "ASR engine (default: --engine)", "ENGINE", choices=_ENGINES, rare=True),
            Option("parallel_calls", "requests at a time, up to 32 (default: 4)", "N", type=int, rare=True),
        ),
        _AZURE: (
            Option(
                "azure_region",
                "region, with the key in AZURE_SPEECH_KEY (default: AZURE_SPEECH_REGION)",
                "NAME",
                rare=True,
            ),
            Option("azure_endpoint", "another address: wss://HOST, or ws://127.0.0.1:PORT", "URL", rare=True),
        ),
    },
    records="dialogues or transcripts",
    done="transcribed",
    unusable="left out, or turns that keep their utterance",
    has_messages=True,
    has_dry_run=True,
    is_slow=True,
)
