"""CTranslate2 behind FastAPI, as `benchmarks.serve` starts it in an environment of its own; imports nothing of ours."""

import asyncio
import sys

import ctranslate2
import sentencepiece
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

FOLDER, PIECES, LOWERCASE, BEAM, PENALTY, PRECISION, WAY = sys.argv[1:]
PROCESSOR = sentencepiece.SentencePieceProcessor(model_file=PIECES)
TRANSLATOR = ctranslate2.Translator(FOLDER, compute_type=PRECISION, inter_threads=2, intra_threads=1)
APP = FastAPI()


class Ask(BaseModel):
    """What is asked."""

    q: str


def translate(texts: list[str]) -> list[str]:
    """The best translation of each."""
    texts = [text.lower() for text in texts] if LOWERCASE == "True" else texts
    rows = [[*row, "</s>"] for row in PROCESSOR.encode(texts, out_type=str)]
    found = TRANSLATOR.translate_batch(rows, beam_size=int(BEAM), length_penalty=float(PENALTY), max_batch_size=1024,
                                       batch_type="tokens", max_decoding_length=100)
    return PROCESSOR.decode([one.hypotheses[0] for one in found])


if WAY == "a call each":
    @APP.post("/translate")
    def one(ask: Ask) -> dict[str, str]:
        """On one of FastAPI's threads."""
        return {"translatedText": translate([ask.q])[0]}
else:
    WAITING: list[tuple[str, asyncio.Future[str]]] = []
    WORKING: set[asyncio.Task[None]] = set()

    @APP.post("/translate")
    async def joined(ask: Ask) -> dict[str, str]:
        """With all others that wait."""
        answer = asyncio.get_running_loop().create_future()
        WAITING.append((ask.q, answer))
        if len(WORKING) < 2:
            task = asyncio.create_task(work())
            WORKING.add(task)
            task.add_done_callback(WORKING.discard)
        return {"translatedText": await answer}

    async def work() -> None:
        """Batches, as long as somebody waits."""
        while WAITING:
            batch = WAITING[:32]
            del WAITING[:32]
            found = await asyncio.to_thread(translate, [text for text, _ in batch])
            for (_, answer), text in zip(batch, found, strict=True):
                answer.set_result(text)


if __name__ == "__main__":
    uvicorn.run(APP, host="127.0.0.1", port=0, log_level="info", access_log=False, http="httptools")
