"""Judges a crawl of a synthetic web by the web's own log, its truth and the WARC files.

    python3 judge.py WEB_LOG TRUTH CRAWL_DIR CRAWL_JSON DELAY_MS

Independent of the crawler's code and counters. Exits 1 on any violation.
"""
import collections
import glob
import json
import sys


def main():
    log_path, truth_path, crawl_dir, json_path, delay_ms = sys.argv[1:6]
    problems = collections.Counter()
    examples = {}

    def problem(kind, text):
        problems[kind] += 1
        examples.setdefault(kind, text)

    asked = collections.Counter()
    robots_at = {}
    last_at = {}
    smallest = {"host": float("inf"), "address": float("inf")}
    requests = 0
    for line in open(log_path):
        at, _peer, local, host, path, _status = line.split()
        at, requests = int(at), requests + 1
        for kind, name in (("host", host), ("address", local.rsplit(":", 1)[0])):
            if (kind, name) in last_at:
                gap_ms = (at - last_at[kind, name]) / 1e6
                smallest[kind] = min(smallest[kind], gap_ms)
                if gap_ms < float(delay_ms):
                    problem(f"gap under the delay per {kind}", f"{gap_ms:.3f} ms: {line}")
            last_at[kind, name] = at
        if path == "/robots.txt":
            robots_at.setdefault(host, at)
            continue
        if host not in robots_at:
            problem("page before robots.txt", line)
        asked[f"http://{host}{path}"] += 1

    expected = collections.Counter()
    for line in open(truth_path):
        entry = json.loads(line)
        url, expect = entry["url"], entry["expect"]
        expected[expect] += 1
        count = asked.pop(url, 0)
        # A busy page answers 503 with Retry-After for a while; a broken one is tried four times.
        right = {
            "fetched": 1 <= count <= 4,
            "redirected": count == 1,
            "client_error": count == 1,
            "server_error": count == 4,
            "denied": count == 0,
            "robots_unreachable": count == 0,
        }[expect]
        if not right:
            problem(f"{expect} asked {count} times", url)
        if expect == "fetched" and count > 1:
            problems["(busy pages asked again)"] += 1
    for url in asked:
        problem("asked for, but not reachable", url)

    records = warc(crawl_dir, problem)
    crawl = json.load(open(json_path))
    print(f"requests in the web's log    {requests}")
    for expect, count in sorted(expected.items()):
        print(f"  expected {expect:<20}{count}")
    print(f"smallest gap per host        {smallest['host']:.3f} ms")
    print(f"smallest gap per address     {smallest['address']:.3f} ms")
    print(f"WARC records checked         {records}")
    print(f"pages by the crawler's word  {crawl['pages']} in {crawl['seconds']:.1f} s, "
          f"{crawl['pages_per_second']:.0f} pages/s")
    if crawl["pages"] != expected["fetched"]:
        problem("crawler's page count", f"{crawl['pages']} != {expected['fetched']}")
    for kind, count in problems.items():
        print(f"{kind}: {count}  e.g. {examples.get(kind, '').strip()}")
    bad = sum(count for kind, count in problems.items() if not kind.startswith("("))
    print("verdict: " + ("FAIL" if bad else "PASS"))
    sys.exit(1 if bad else 0)


def warc(crawl_dir, problem):
    """Reads every record with warcio, its digests checked."""
    try:
        from warcio.archiveiterator import ArchiveIterator
    except ImportError:
        problem("no warcio", "pip install warcio")
        return 0
    kinds = collections.Counter()
    coded = collections.Counter()
    files = sorted(glob.glob(crawl_dir + "/warc/*.warc.gz"))
    if not files:
        problem("no WARC files", crawl_dir)
    for path in files:
        with open(path, "rb") as stream:
            for record in ArchiveIterator(stream, check_digests=True):
                kinds[record.rec_type] += 1
                headers = record.http_headers
                if record.rec_type == "response" and headers:
                    for name in ("Content-Encoding", "X-Crawler-Transfer-Encoding"):
                        if headers.get_header(name):
                            coded[name] += 1
                    record.content_stream().read()
                else:
                    record.raw_stream.read()
                if record.digest_checker.passed is False:
                    problem("digest", f"{path}: {record.digest_checker.problems}")
        lines = sum(1 for _ in open(path.replace(".warc.gz", ".cdxj")))
        if lines == 0:
            problem("empty index", path)
    print("WARC records                 " + ", ".join(f"{n} {k}" for k, n in kinds.most_common()))
    print("  of them                    " + ", ".join(f"{n} {k}" for k, n in coded.items()))
    return sum(kinds.values())


main()
