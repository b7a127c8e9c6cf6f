"""What a text of the agent does: tells of trouble, asks, promises what comes next, or breaks off."""

from __future__ import annotations

import re

from operations.trajectories.detectors.words import plain

# The words are English and Chinese. In other languages nothing is recognized: no promise, and no word of trouble.
_TROUBLE = re.compile(
    r"\b(?:no|not|none|nothing|never|cannot|unable|unavailable|unsuccessful\w*|impossible|fail\w*|error\w*|exception\w*|"
    r"unfortunately|sorry|afraid|problems?|trouble|refus\w+|denied|declined|rejected|missing|invalid|unknown|unreachable|"
    r"timed out|time-?out|broken|blocked|expired|incomplete|instead|however|neither|nor|lacks?|lacking|"
    r"retr(?:y|ied)|skipped|crashed|aborted|went wrong)\b|n't\b|失败|无法|未能|不能|没有|错误|抱歉|不存在|超时",
    re.IGNORECASE,
)
_WORK = (
    "check|look|search|find|open|read|run|verify|fetch|get|query|call|try|examine|investigate|test|update|write|fix|review|"
    "compute|calculate|compare|gather|collect|analy[sz]e|inspect|go|continue|proceed|start"
)
_WORKING = (
    "checking|looking|searching|opening|reading|running|verifying|fetching|getting|querying|calling|trying|examining|"
    "investigating|testing|reviewing|computing|calculating|comparing|gathering|collecting|analy[sz]ing|inspecting|"
    "preparing|working|processing|sending|continuing|proceeding|waiting"
)
_PROMISE = re.compile(
    r"(?:\bi(?:\s+(?:now\s+)?(?:will|shall)|'ll|(?:\s+am|'m)\s+(?:now\s+)?(?:going|about)\s+to)\b|"
    rf"\bwe(?:\s+will|'ll|\s+shall|(?:\s+are|'re)\s+(?:now\s+)?going\s+to)\s+(?:now\s+|next\s+|then\s+)?(?:{_WORK})\b|"
    rf"\b(?:i|we)\s+(?:still\s+|now\s+)?(?:need\s+to|have\s+to|should|must)\s+(?:now\s+|next\s+|also\s+)?(?:{_WORK})\b|"
    rf"\b(?:i\s+am|i'm|we\s+are|we're)\s+(?:now\s+|still\s+|currently\s+)?(?:{_WORKING})\b|"
    rf"^(?:(?:now|next|still)\s+\w+ing\b|(?:{_WORKING})\b(?!.*\b(?:is|was|are|were|found|shows?|gave|gives|takes|costs)\b))|"
    r"\blet\s+me\b|^let(?:\s+us|'s)\b|^next,?\s+(?:i|we|up|step|comes?)\b|\bnext\s+step\s+(?:is|will|would)\b|"
    r"^(?:now\s+|then\s+)?on\s+to\b|^now\s+(?:to|for)\b|\bone\s+moment\b|\bplease\s+wait\b|\bstand\s+by\b|"
    r"\bhold\s+on\b|接下来|我将|我会|让我|正在|请稍)",
    re.IGNORECASE,
)
_NO_PROMISE = re.compile(
    r"\blet\s+me\s+know\b|\b(?:if|once|when|after|until|unless|provided|would|could|can)\s+you\b|\bas\s+soon\s+as\s+you\b|"
    r"\b(?:tell|give|send|show)\s+me\b|\bplease\b(?!\s+wait)|\byour\s+(?:confirmation|approval|answer|reply|permission)\b|"
    r"\b(?:will|'ll|shall)\s+(?:not|be\b|remind|notify|inform|let\s+you|keep|tell\s+you|need|stop|leave|assume|"
    r"wait\s+for\s+you|send\s+you\s+a\s+reminder)|\bwon't\b|\bwaiting\s+for\s+you|\bnot\s+going\s+to\b|"
    r"\bunable\b|\bcannot\b|如果|需要您",
    re.IGNORECASE,
)
"""What looks like a promise and is an offer, a condition, a reminder that was set or a refusal."""

_SENTENCE = re.compile("(?<=[.!?])\\s+|\\u3002|\\n+")
_BROKEN_OFF = (":", ",", ";", "(", "[", "...")
"""NFKC makes three full stops of the one sign for them."""
CUT = frozenset(("length", "max_tokens", "max_output_tokens"))
"""Reasons of a provider for an answer that ends where the room ended."""


def tells_of_trouble(text: str) -> bool:
    """Whether a text says that something did not go as it should."""
    return bool(_TROUBLE.search(plain(text)))


def asks(text: str) -> bool:
    """Whether a text ends with a question."""
    return plain(text).rstrip().rstrip("\"')*_\u201d").endswith("?")


def promises(text: str) -> bool:
    """Whether the last sentence of a text promises what the agent would do next."""
    sentences = [sentence for sentence in _SENTENCE.split(plain(text).strip()) if sentence.strip()]
    last = sentences[-1].strip() if sentences else ""
    return bool(_PROMISE.search(last)) and not _NO_PROMISE.search(last) and not asks(last)


def breaks_off(text: str) -> bool:
    """Whether a text stops where something has to follow."""
    return plain(text).rstrip().endswith(_BROKEN_OFF)
