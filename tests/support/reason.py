"""Why a test failed, for the line that a runner prints of it."""


def reason(why, verbose):
    """of a traceback the exception, or all of it"""
    lines = [line for line in why.strip().splitlines() if line.strip()]
    if verbose:
        return "\n" + "\n".join("    " + line for line in lines)
    for i, line in enumerate(lines):
        if not line.startswith((" ", "Traceback")) and ":" in line:
            return " " + " ".join(l.strip() for l in lines[i:])[:600]
    return " " + lines[-1][:600]
