"""Round steps for axes, and numbers as people read them."""


def nice_step(span: float, at_most: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, … that cuts the span into at most so many pieces."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if span <= step * factor * at_most:
                return step * factor
        step *= 10


def show_duration(ns: float) -> str:
    """Nanoseconds as people read them: three significant digits and a unit."""
    size = abs(ns)
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if size >= factor * 0.9995:
            return f"{_digits(ns / factor)} {unit}"
    return f"{_digits(ns)} ns"


def _digits(value: float) -> str:
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def show_moment(ns: float, timed: bool = True) -> str:
    """A place on the axis of a run: seconds since its start, or a logical step."""
    return f"{ns / 1e9:,.6f} s" if timed else f"step {ns:,.0f}"
