"""A SentencePiece-style BPE vocabulary: training on word counts, encoding and decoding.

Text is encoded as the GGUF tokenizer model "llama" does it: a space is put in front, every space
becomes U+2581, and the adjacent pair whose concatenation is the best-scored vocabulary entry is
merged (leftmost on a tie) until none is left. What is not in the vocabulary becomes byte tokens.
"""

import collections
import heapq
import json
import re

SPACE = "\u2581"
UNK, BOS, EOS = 0, 1, 2
FIRST_BYTE = 3
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
# One piece of text inside which merges may happen: a word with inner apostrophes, a run of
# punctuation, or a digit. A vocabulary learned on these pieces has no entry that crosses them.
PIECE = re.compile(SPACE + r"?(?:[A-Za-z]+(?:'[A-Za-z]+)*|[0-9]|[^\sA-Za-z0-9" + SPACE + r"]+)")
CHARACTERS = [SPACE] + [chr(c) for c in range(0x21, 0x7F)]


class Vocabulary:
    """Token texts, scores and types; ids are positions."""

    def __init__(self, tokens, scores, types):
        self.tokens, self.scores, self.types = tokens, scores, types
        self.normal = {t: i for i, t in enumerate(tokens) if types[i] == NORMAL}
        self.cache = {}

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        return cls(data["tokens"], data["scores"], data["types"])

    def save(self, path):
        rows = zip(("tokens", "scores", "types"), (self.tokens, self.scores, self.types))
        body = ",\n".join(f'"{k}": {json.dumps(v, ensure_ascii=False)}' for k, v in rows)
        with open(path, "w", encoding="utf-8") as file:
            file.write("{\n" + body + "\n}\n")

    def merge(self, text):
        """Ids of `text`, in which spaces are U+2581 already. O(n log n) for any length."""
        pieces = list(text)
        before = list(range(-1, len(pieces) - 1))
        after = list(range(1, len(pieces) + 1))
        heap = []

        def offer(left):
            right = after[left]
            if right < len(pieces):
                joined = pieces[left] + pieces[right]
                token = self.normal.get(joined)
                if token is not None:
                    heapq.heappush(heap, (-self.scores[token], left, right, joined))

        for i in range(len(pieces)):
            offer(i)
        while heap:
            _, left, right, joined = heapq.heappop(heap)
            if pieces[left] is None or right >= len(pieces) or after[left] != right:
                continue
            if pieces[right] is None or pieces[left] + pieces[right] != joined:
                continue
            pieces[left], pieces[right] = joined, None
            after[left] = after[right]
            if after[left] < len(pieces):
                before[after[left]] = left
            if before[left] >= 0:
                offer(before[left])
            offer(left)
        ids = []
        for piece in pieces:
            if piece is None:
                continue
            token = self.normal.get(piece)
            if token is not None:
                ids.append(token)
            else:
                ids.extend(FIRST_BYTE + byte for byte in piece.encode("utf-8"))
        return ids

    def encode(self, text):
        """Ids of `text` without special tokens, word by word with a cache."""
        ids = []
        for word in text.split(" "):
            found = self.cache.get(word)
            if found is None:
                found = self.cache[word] = self.merge(SPACE + word)
            ids.extend(found)
        return ids

    def decode(self, ids):
        out = bytearray()
        for i in ids:
            if self.types[i] == BYTE:
                out.append(i - FIRST_BYTE)
            elif self.types[i] == NORMAL:
                out += self.tokens[i].replace(SPACE, " ").encode("utf-8")
        text = out.decode("utf-8", errors="replace")
        return text[1:] if text.startswith(" ") else text


def pieces_of(word_counts):
    """Counts of the mergeable pieces of words, each word with its U+2581 in front."""
    counts = collections.Counter()
    for word, count in word_counts.items():
        for piece in PIECE.findall(SPACE + word):
            if piece.isascii() or piece[0] == SPACE and piece[1:].isascii():
                counts[piece] += count
    return counts


def train(word_counts, size):
    """Learns a vocabulary of `size` tokens. Returns it and {piece: segmentation after training}.

    Pairs are counted by their joined text, since the encoder merges by text too.
    """
    merges = size - FIRST_BYTE - 256 - len(CHARACTERS)
    counts = pieces_of(word_counts)
    words = {piece: list(piece) for piece in sorted(counts)}
    totals = collections.Counter()
    where = collections.defaultdict(set)
    for piece, symbols in words.items():
        for a, b in zip(symbols, symbols[1:]):
            totals[a + b] += counts[piece]
            where[a + b].add(piece)
    heap = [(-n, text) for text, n in totals.items()]
    heapq.heapify(heap)
    learned = []
    while len(learned) < merges:
        n, joined = heapq.heappop(heap)
        if totals[joined] != -n or n == 0:
            continue
        learned.append(joined)
        touched = set()
        for piece in where.pop(joined):
            symbols, count = words[piece], counts[piece]
            for a, b in zip(symbols, symbols[1:]):
                totals[a + b] -= count
                touched.add(a + b)
            merged, i = [], 0
            while i < len(symbols):
                if i + 1 < len(symbols) and symbols[i] + symbols[i + 1] == joined:
                    merged.append(joined)
                    i += 2
                else:
                    merged.append(symbols[i])
                    i += 1
            words[piece] = merged
            for a, b in zip(merged, merged[1:]):
                totals[a + b] += count
                where[a + b].add(piece)
                touched.add(a + b)
        known = set(learned)
        for text in touched:
            if totals[text] > 0 and text not in known:
                heapq.heappush(heap, (-totals[text], text))
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    scores = [0.0] * len(tokens)
    for text in learned + CHARACTERS:
        scores.append(-float(len(tokens) - FIRST_BYTE - 256))
        tokens.append(text)
        types.append(NORMAL)
    return Vocabulary(tokens, scores, types), words
