"""Describes the machine, for the head of a result."""


def cpu():
    """Returns the processor's name with its family and model, because makers sell many under one name."""
    fields = {}
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    known = [f"{name} {fields[key]}" for name, key in (("family", "cpu family"), ("model", "model")) if key in fields]
    return fields.get("model name", "unknown processor") + (f" ({', '.join(known)})" if known else "")
