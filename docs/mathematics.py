r"""Formulas of the pages, from LaTeX to MathML, which browsers show without a script.

    python docs/mathematics.py "p_j = \min(1, c s_j)"

The part of LaTeX that the pages use: letters, numbers, operators, sub- and superscripts,
fractions, roots, accents, sums with limits, text, fences, `aligned` and `cases`. A command that is
not known is an error, so that the build fails instead of showing a wrong formula.
"""

from __future__ import annotations

import re
import sys
from html import escape, unescape

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η",
    "theta": "θ", "lambda": "λ", "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ",
    "phi": "φ", "Delta": "Δ", "Sigma": "Σ",
}  # fmt: skip
SYMBOLS = {
    "cdot": "⋅", "times": "×", "le": "≤", "ge": "≥", "ne": "≠", "in": "∈", "approx": "≈",
    "propto": "∝", "to": "→", "ldots": "…", "cdots": "⋯", "infty": "∞", "partial": "∂", "sim": "∼",
    "pm": "±", "cup": "∪", "cap": "∩", "subset": "⊂", "ell": "ℓ",
    "lvert": "|", "rvert": "|", "vert": "|", "lVert": "‖", "rVert": "‖", "mid": "|",
    "{": "{", "}": "}", "lfloor": "⌊", "rfloor": "⌋",
}  # fmt: skip
FORMS = {"lvert": "prefix", "rvert": "postfix", "lVert": "prefix", "rVert": "postfix"}
LARGE = {"sum": "∑", "prod": "∏", "max": "max", "min": "min"}
WORDS = ("log", "exp")
SPACES = {",": "0.17em", ";": "0.28em", "quad": "1em", "qquad": "2em"}
ACCENTS = {"hat": "^", "tilde": "~", "bar": "¯"}
FENCES = set("()[]|‖{}⌊⌋")
TOKEN = re.compile(r"\\([A-Za-z]+|.)|(\d+(?:[.,]\d+)*)|\s+|(.)", re.DOTALL)
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL
)  # what pymdownx.arithmatex leaves of $...$ and $$...$$


class Parser:
    """Reads one formula from left to right."""

    def __init__(self, tex: str, display: bool) -> None:
        self.tex, self.display = tex, display
        self.tokens = [m for m in TOKEN.finditer(tex) if not m[0].isspace()]
        self.place = 0

    def peek(self) -> str:
        """The next token, or an empty string at the end."""
        return self.tokens[self.place][0] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        """The next token, which must exist."""
        if not self.peek():
            raise ValueError(f"the formula ends too early: {self.tex}")
        self.place += 1
        return self.tokens[self.place - 1][0]

    def row(self, end: tuple[str, ...]) -> str:
        """MathML up to one of the tokens, which is not taken; all of it if there is none."""
        parts = []
        while self.peek() not in end:
            parts.append(self.scripted())
        return "".join(parts)

    def scripted(self) -> str:
        """An atom with its sub- and superscript, in either order."""
        limits = self.peek()[1:] in LARGE
        base, below, above = self.atom(), "", ""
        while self.peek() in ("_", "^"):
            if self.take() == "_":
                below = self.atom()
            else:
                above = self.atom()
        stacked = limits and self.display
        name = {
            (True, True): ("munderover", "msubsup"),
            (True, False): ("munder", "msub"),
            (False, True): ("mover", "msup"),
        }.get((bool(below), bool(above)))
        if name is None:
            return base
        tag = name[0] if stacked else name[1]
        return f"<{tag}>{base}{below}{above}</{tag}>"

    def group(self) -> str:
        """The content of the braces that come next, as it stands."""
        if self.take() != "{":
            raise ValueError(f"a brace is missing in {self.tex}")
        start = self.tokens[self.place - 1].end()
        depth = 1
        while depth:
            token = self.take()
            depth += (token == "{") - (token == "}")
        return self.tex[start : self.tokens[self.place - 1].start()]

    def atom(self) -> str:
        """One symbol, group or command."""
        token = self.take()
        if token == "{":
            inside = self.row(("}", ""))
            self.take()
            return f"<mrow>{inside}</mrow>"
        if token.startswith("\\"):
            return self.command(token[1:])
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{token}</mi>"
        return operator({"-": "−", "'": "′", "*": "∗"}.get(token, token))

    def command(self, name: str) -> str:
        """What a command stands for."""
        if name in GREEK:
            return f"<mi>{GREEK[name]}</mi>"
        if name in LARGE:
            return f"<mo>{LARGE[name]}</mo>"
        if name in WORDS:
            return f"<mi>{name}</mi><mo>&#8289;</mo>"
        if name in FORMS:
            return f'<mo form="{FORMS[name]}" stretchy="false">{SYMBOLS[name]}</mo>'
        if name in SYMBOLS:
            return operator(SYMBOLS[name])
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}"/>'
        if name in ACCENTS:
            return f'<mover accent="true">{self.atom()}<mo>{ACCENTS[name]}</mo></mover>'
        if name in ("text", "mathrm", "operatorname"):
            tag = "mtext" if name == "text" else "mi"
            inside = re.sub(r"^ | $", "\u00a0", escape(self.group()))  # outer blanks would be lost
            return f"<{tag}>{inside}</{tag}>"
        if name == "mathbb":
            return f"<mi>{''.join({'E': '𝔼', 'R': 'ℝ', '1': '𝟙'}[c] for c in self.group())}</mi>"
        if name == "frac":
            return f"<mfrac>{self.atom()}{self.atom()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self.atom()}</msqrt>"
        if name == "left":
            return self.fenced()
        if name == "begin":
            return self.table(self.group())
        raise ValueError(f"\\{name} is not known to docs/mathematics.py, in {self.tex}")

    def fence(self) -> str:
        """A delimiter that grows with its content; nothing for a dot."""
        token = self.take()
        symbol = SYMBOLS[token[1:]] if token.startswith("\\") else token
        return "" if symbol == "." else f'<mo fence="true">{escape(symbol)}</mo>'

    def fenced(self) -> str:
        """The part from left to right."""
        first, inside = self.fence(), self.row(("\\right", ""))
        self.take()
        return f"<mrow>{first}{inside}{self.fence()}</mrow>"

    def table(self, kind: str) -> str:
        """The rows of `aligned` or `cases`."""
        rows, cells = [], []
        while True:
            cells.append(f"<mtd>{self.row(('&', chr(92) * 2, chr(92) + 'end', ''))}</mtd>")
            token = self.take()
            if token != "&":
                rows.append(f"<mtr>{''.join(cells)}</mtr>")
                cells = []
            if token == "\\end":
                break
        if self.group() != kind or kind not in ("aligned", "cases"):
            raise ValueError(f"only aligned and cases are known, in {self.tex}")
        table = f'<mtable class="{kind}" displaystyle="true">{"".join(rows)}</mtable>'
        brace = '<mo fence="true">{</mo>'
        return table if kind == "aligned" else f"<mrow>{brace}{table}</mrow>"


def operator(symbol: str) -> str:
    r"""An operator; fences keep the size of a line unless \left is written before them."""
    fixed = ' stretchy="false"' if symbol in FENCES else ""
    return f"<mo{fixed}>{escape(symbol)}</mo>"


def mathml(tex: str, display: bool = False) -> str:
    """One formula as an element of MathML, with its LaTeX beside it for people who copy it."""
    parser = Parser(tex.strip(), display)
    inside = parser.row(("",))
    kind = ' display="block"' if display else ""
    source = f'<annotation encoding="application/x-tex">{escape(tex.strip())}</annotation>'
    content = f"<semantics><mrow>{inside}</mrow>{source}</semantics>"
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML"{kind}>{content}</math>'


def convert(page: str) -> str:
    """A page of HTML with its formulas in MathML."""

    def one(match: re.Match[str]) -> str:
        formula = mathml(unescape(match[3]), match[2] == "[")
        return f'<div class="formula">{formula}</div>' if match[2] == "[" else formula

    return FORMULA.sub(one, page)


if __name__ == "__main__":
    print(mathml(sys.argv[1]))
