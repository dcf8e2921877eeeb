"""Checks for perf/held whether there were requests in every second, by the web's log.

    held.py WORK SECONDS

WORK has web.log and crawl.json. Prints what it found; exits 1 if a second had no request.
"""
import json
import sys

OPENING_SECONDS = 5  # until links have led from the seed to most hosts


def main():
    work, seconds = sys.argv[1], int(sys.argv[2])
    starts = []
    with open(f"{work}/web.log", encoding="ascii") as log:
        for line in log:
            if not line.startswith("#"):
                starts.append(int(line.split(" ", 1)[0]))
    if not starts:
        print("no request at all")
        return 1
    starts.sort()
    first = starts[0]
    counts = [0] * seconds
    for start in starts:
        second = (start - first) // 10**9
        if second < seconds:
            counts[second] += 1
    # The last second is cut by the signal.
    watched = counts[OPENING_SECONDS : seconds - 1]
    empty = [OPENING_SECONDS + at for at, count in enumerate(watched) if count == 0]
    inside = [start for start in starts if OPENING_SECONDS * 10**9 <= start - first < (seconds - 1) * 10**9]
    gap_ns = max((after - before for before, after in zip(inside, inside[1:])), default=0)
    print(f"{len(starts)} requests; a second had {min(watched, default=0)} at least;"
          f" longest time without one {gap_ns / 1e6:.0f} ms")
    try:
        with open(f"{work}/crawl.json", encoding="utf-8") as file:
            end = json.load(file)
        print(f"{end['pages']} pages, {end['exit']}; longest time between two turns of a driver"
              f" {end['turn_gap_ms_max']:.0f} ms; woken {end['nudges']} times")
    except (OSError, ValueError) as error:
        print(f"no summary: {error}")
        return 1
    if empty:
        print(f"{len(empty)} seconds without a request: {empty[:20]}")
        return 1
    return 0 if watched else 1


sys.exit(main())
