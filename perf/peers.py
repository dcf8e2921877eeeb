"""Runs each crawler over the same site and prints what it did; called by perf/peers."""
import os, platform, re, shutil, signal, statistics, subprocess, sys, tempfile, time

PAGES, RUNS, PORT = (int(os.environ[name]) for name in ("PAGES", "RUNS", "PORT"))
NEPHILA, HOME = os.environ["NEPHILA"], os.environ["HOME_OF_PEERS"]
SKIP = os.environ.get("SKIP", "").split()
CORES = sorted(os.sched_getaffinity(0))
WEB_CORE, CORE = CORES[0], CORES[-1]
SITE = f"http://127.0.0.1:{PORT}/"
LIMIT_SECONDS = 600
# Whoever took longer once is not run again.
SLOW_SECONDS = 60

SPIDER = '''
import scrapy
from scrapy.linkextractors import LinkExtractor
class Site(scrapy.Spider):
    name = "site"
    start_urls = ["%s"]
    links = LinkExtractor()
    custom_settings = dict(CONCURRENT_REQUESTS=64, CONCURRENT_REQUESTS_PER_DOMAIN=64, ROBOTSTXT_OBEY=True,
                           DOWNLOAD_DELAY=0, LOG_LEVEL="ERROR", DEPTH_LIMIT=0, TELNETCONSOLE_ENABLED=False)
    def parse(self, response):
        for link in self.links.extract_links(response):
            yield response.follow(link, self.parse)
'''

PEERS = {
    "nephila": "robots.txt, exact URL seen, digest and SimHash, WARC and CDXJ, journal; one request at a time",
    "wget2": "robots.txt; files as they are; no WARC, no near duplicates, no state to resume from",
    "scrapy": "robots.txt, URL seen in memory; nothing stored; no WARC, no content dedup",
    "spider": "URL seen in memory; robots.txt only where asked for; nothing stored; no WARC, no dedup",
}


def command(name, work):
    if name == "nephila":
        return [NEPHILA, "crawl", f"http://h000000.site0.test:{PORT}/", "--out", f"{work}/crawl", "--cores", str(CORE),
                "--delay-ms", "0", "--dns", f"127.0.0.1:{PORT + 1}", "--allow-private",
                "--contact", "http://crawler.test/", "--quiet", "--set", "stay=host",
                "--set", "skeleton_page_cap=0"]
    if name == "wget2":
        return ["wget2", "-r", "-l", "0", "-q", "--max-threads=8", "--no-host-directories", "-P", f"{work}/files", SITE]
    if name == "scrapy":
        with open(f"{work}/one_site.py", "w") as out:
            out.write(SPIDER % SITE)
        return [f"{HOME}/venv/bin/scrapy", "runspider", f"{work}/one_site.py"]
    return [f"{HOME}/bin/spider", "--url", SITE, "--respect-robots-txt", "crawl"]


def run(name):
    work = tempfile.mkdtemp(prefix="peers-")
    log = f"{work}/web.log"
    web = subprocess.Popen([NEPHILA, "web", "--profile", "small", "--hosts", "1", "--pages", str(PAGES),
                            "--core", str(WEB_CORE), "--listen", f"0.0.0.0:{PORT}", "--dns", f"127.0.0.1:{PORT + 1}",
                            "--log", log], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    web.stdout.readline()
    try:
        begun = time.monotonic()
        with open(f"{work}/out", "w") as out:
            peer = subprocess.Popen(command(name, work), stdout=out, stderr=out,
                                    preexec_fn=lambda: os.sched_setaffinity(0, {CORE}))
            deadline = begun + LIMIT_SECONDS
            while True:
                pid, status, usage = os.wait4(peer.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > deadline:
                    peer.kill()
                time.sleep(0.01)
        seconds = time.monotonic() - begun
    finally:
        web.send_signal(signal.SIGINT)
        web.wait()
    fetched = set()
    requests = 0
    with open(log, errors="replace") as lines:
        for line in lines:
            found = re.search(r" (/[^ ]*) 200(?: |$)", line.rstrip())
            if not line.startswith("#"):
                requests += 1
            if found and not found.group(1).endswith("robots.txt"):
                fetched.add(found.group(1))
    tail = open(f"{work}/out", errors="replace").read()[-300:].strip()
    shutil.rmtree(work)
    cpu = usage.ru_utime + usage.ru_stime
    if not fetched:
        print(f"{name} fetched nothing: {tail}", file=sys.stderr)
    pages = len(fetched)
    return dict(pages=pages, requests=requests, rate=pages / seconds, cpu_us=cpu * 1e6 / max(pages, 1),
                per_cpu=pages / max(cpu, 1e-9), rss=usage.ru_maxrss / 1e3, seconds=seconds)


def main():
    names = [name for name in PEERS if name not in SKIP]
    runs = {name: [] for name in names}
    for _ in range(RUNS):
        for name in names:
            if any(one["seconds"] > SLOW_SECONDS for one in runs[name]):
                continue
            runs[name].append(run(name))
            print(f"{name}: {runs[name][-1]}", file=sys.stderr)
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(f"# Peers on one site\n\n`perf/peers {PAGES} {RUNS}`: one site of {PAGES:,} pages of 25 KB, no delay, each crawler "
          f"pinned to one core, the web on another; medians. Who took over {SLOW_SECONDS} s was run once. Commit {commit}, {cpu}, {len(CORES)} cores, "
          f"Linux {platform.release()}, load {os.getloadavg()[0]:.1f}.\n")
    print("| crawler | runs | pages | requests | pages/s | CPU us a page | pages/CPU s | peak MB |\n|---|---|---|---|---|---|---|---|")
    middle = lambda name, key: statistics.median(one[key] for one in runs[name])
    for name in names:
        print(f"| {name} | {len(runs[name])} | {middle(name, 'pages'):.0f} | {middle(name, 'requests'):.0f} | {middle(name, 'rate'):.0f} "
              f"| {middle(name, 'cpu_us'):.0f} | {middle(name, 'per_cpu'):.0f} | {middle(name, 'rss'):.0f} |")
    others = [name for name in names if name != "nephila" and middle(name, "pages") > 0]
    if others and "nephila" in names:
        best = max(others, key=lambda name: middle(name, "per_cpu"))
        print(f"\nPages a CPU second: {middle('nephila', 'per_cpu') / middle(best, 'per_cpu'):.1f} times the best peer's ({best}).")
    print("\nWhat each did besides fetching and following links:\n")
    for name in names:
        print(f"- {name}: {PEERS[name]}.")


main()
