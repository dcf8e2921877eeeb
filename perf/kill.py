"""Prints what kills cost a crawl, by the web's log and the referee's verdict.

    python3 kill.py WORK_DIR --stop KILLED:STARTED ...

Times are Unix nanoseconds. Exits 1 if the verdict is not a pass.
"""
import json
import statistics
import sys


def main():
    work = sys.argv[1]
    stops = [tuple(map(int, text.split(":"))) for text in sys.argv[3::2]]
    verdict = json.load(open(work + "/verdict.json"))
    starts = sorted(requests(work + "/web.log"))
    waits = []
    for (_, started), (killed, _) in zip(stops, stops[1:] + [(starts[-1] + 1, 0)]):
        first = next((start for start in starts if started <= start < killed), None)
        if first is not None:
            waits.append((first - started) / 1e9)
    repeats = verdict["repeat_counts"] + [0] * (len(stops) - len(verdict["repeat_counts"]))
    print(f"requests                      {verdict['request_count']}")
    if repeats:
        print(f"asked for again after a kill  {statistics.mean(repeats):.1f} URLs on average, "
              f"{max(repeats)} at most, {sum(repeats)} in all")
    if waits:
        print(f"start to first request        {statistics.median(waits):.2f} s at the median, "
              f"{max(waits):.2f} s at most ({len(waits)} of {len(stops)} starts got so far)")
    for key, name in (("host_gap_ns_min", "host"), ("address_gap_ns_min", "address")):
        if verdict[key]:
            print(f"smallest gap per {name:<13}{verdict[key]['value'] / 1e6:.1f} ms")
    for kind, count in verdict["violation_counts"].items():
        print(f"{kind}: {count}")
    for example in verdict["examples"][:10]:
        print("  ", example["kind"], example["host"], example["note"], *example["lines"], sep="\n    ")
    print("log: " + ("PASS" if verdict["pass"] else "FAIL"))
    sys.exit(0 if verdict["pass"] else 1)


def requests(path):
    """Returns the starts of all requests, in Unix time."""
    ahead = 0
    for line in open(path):
        if line.startswith("# clock "):
            monotonic, unix = map(int, line.split()[2:4])
            ahead = unix - monotonic
        elif not line.startswith("#"):
            yield int(line.split(" ", 1)[0]) + ahead


main()
