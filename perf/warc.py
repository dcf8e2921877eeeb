"""Reads the WARC files of a crawl with warcio, checks every digest, and counts their pages.

    python3 warc.py CRAWL_DIR TRUTH [CRAWL_JSON]

`nephila audit` judges politeness and the requests; this script is a second reader of the files.
Everything that should have been fetched must be in them, and each revisit must refer to a payload
that is in them. With CRAWL_JSON the crawler's own count is compared with the truth too. Exits 1 on
any problem.
"""
import collections
import glob
import json
import sys

from warcio.archiveiterator import ArchiveIterator


def main():
    crawl_dir, truth_path = sys.argv[1:3]
    problems = []
    pages = {}
    payloads = set()
    revisits = []
    kinds = collections.Counter()
    coded = collections.Counter()
    files = sorted(glob.glob(crawl_dir + "/warc/*.warc.gz"))
    if not files:
        problems.append(f"no WARC files in {crawl_dir}")
    for path in files:
        read(path, kinds, coded, problems, pages, payloads, revisits)
    for path in glob.glob(crawl_dir + "/warc/*.open"):
        problems.append(f"{path} is left open")
    problems += [f"a revisit of a payload that is nowhere: {url}"
                 for url, payload in revisits if payload not in payloads]
    truth = [json.loads(line) for line in open(truth_path)]
    expected = [line["url"] for line in truth if line["expect"] == "fetched"]
    problems += [f"not stored: {url}" for url in expected if url not in pages]
    print("WARC records                 " + ", ".join(f"{n} {k}" for k, n in kinds.most_common()))
    print("  of them                    " + ", ".join(f"{n} {k}" for k, n in coded.items()))
    print(f"pages expected and stored    {sum(url in pages for url in expected)} of "
          f"{len(expected)}, {sum(pages[url] - 1 for url in expected if url in pages)} of them again")
    if len(sys.argv) > 3:
        crawl = json.load(open(sys.argv[3]))
        print(f"pages by the crawler's word  {crawl['pages']} in {crawl['seconds']:.1f} s, "
              f"{crawl['pages_per_second']:.0f} pages/s")
        if crawl["pages"] != len(expected):
            problems.append(f"the crawler counts {crawl['pages']} pages, not {len(expected)}")
    for problem in problems[:10]:
        print(problem)
    print("WARC: " + ("FAIL" if problems else "PASS"))
    sys.exit(1 if problems else 0)


def read(path, kinds, coded, problems, pages, payloads, revisits):
    indexed = 0
    with open(path, "rb") as stream:
        for record in ArchiveIterator(stream, check_digests=True):
            kinds[record.rec_type] += 1
            headers = record.http_headers
            url = record.rec_headers.get_header("WARC-Target-URI")
            payload = record.rec_headers.get_header("WARC-Payload-Digest")
            indexed += record.rec_type in ("response", "revisit")
            if record.rec_type == "response":
                payloads.add(payload)
            elif record.rec_type == "revisit":
                revisits.append((url, payload))
            if record.rec_type in ("response", "revisit") and headers \
                    and headers.get_statuscode() == "200":
                pages[url] = pages.get(url, 0) + 1
            if record.rec_type == "response" and headers:
                for name in ("Content-Encoding", "X-Crawler-Transfer-Encoding"):
                    if headers.get_header(name):
                        coded[name] += 1
                record.content_stream().read()
            else:
                record.raw_stream.read()
            if record.digest_checker.passed is False:
                problems.append(f"{path}: {record.digest_checker.problems}")
    lines = sum(1 for _ in open(path.replace(".warc.gz", ".cdxj")))
    if lines != indexed:
        problems.append(f"{path}: {lines} lines in the index, {indexed} answers in the file")


main()
