"""Reads the WARC files of a crawl with warcio, every digest checked, and counts their pages.

    python3 warc.py CRAWL_DIR TRUTH CRAWL_JSON

Politeness and what was asked for are for `nephila audit` to judge; this is the second reader that
the files must satisfy. Exits 1 on any problem.
"""
import collections
import glob
import json
import sys

from warcio.archiveiterator import ArchiveIterator


def main():
    crawl_dir, truth_path, json_path = sys.argv[1:4]
    problems = []
    kinds = collections.Counter()
    coded = collections.Counter()
    files = sorted(glob.glob(crawl_dir + "/warc/*.warc.gz"))
    if not files:
        problems.append(f"no WARC files in {crawl_dir}")
    for path in files:
        read(path, kinds, coded, problems)
    expected = sum(json.loads(line)["expect"] == "fetched" for line in open(truth_path))
    crawl = json.load(open(json_path))
    print("WARC records                 " + ", ".join(f"{n} {k}" for k, n in kinds.most_common()))
    print("  of them                    " + ", ".join(f"{n} {k}" for k, n in coded.items()))
    print(f"pages by the crawler's word  {crawl['pages']} in {crawl['seconds']:.1f} s, "
          f"{crawl['pages_per_second']:.0f} pages/s")
    if crawl["pages"] != expected:
        problems.append(f"the crawler counts {crawl['pages']} pages, the truth {expected}")
    for problem in problems[:10]:
        print(problem)
    print("WARC: " + ("FAIL" if problems else "PASS"))
    sys.exit(1 if problems else 0)


def read(path, kinds, coded, problems):
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
                problems.append(f"{path}: {record.digest_checker.problems}")
    if not open(path.replace(".warc.gz", ".cdxj")).readline():
        problems.append(f"{path}: empty index")


main()
