"""Runs each crawler over the same sites and prints what it did; called by perf/peers."""
import atexit, os, platform, shutil, signal, statistics, subprocess, sys, tempfile, time
import machine

PAGES, RUNS, SITES, PORT = (int(os.environ[name]) for name in ("PAGES", "RUNS", "SITES", "PORT"))
NEPHILA, HOME = os.environ["NEPHILA"], os.environ["HOME_OF_PEERS"]
SKIP = os.environ.get("SKIP", "").split()
CORES = sorted(os.sched_getaffinity(0))
WEB_CORE, CORE = CORES[0], CORES[-1]
LIMIT_SECONDS = 600
# A crawler that took longer than this once is not run again.
SLOW_SECONDS = 60
# A slow crawler gets only a part of the pages: their number is divided by this.
PARTS = {"scrapy": 30}

SPIDER = '''
import scrapy
from scrapy.linkextractors import LinkExtractor
class Site(scrapy.Spider):
    name = "site"
    start_urls = %s
    links = LinkExtractor(allow_domains=%s)
    custom_settings = dict(CONCURRENT_REQUESTS=64, CONCURRENT_REQUESTS_PER_DOMAIN=64, ROBOTSTXT_OBEY=True,
                           DOWNLOAD_DELAY=0, LOG_LEVEL="ERROR", DEPTH_LIMIT=0, TELNETCONSOLE_ENABLED=False)
    def parse(self, response):
        for link in self.links.extract_links(response):
            yield response.follow(link, self.parse)
'''

PEERS = {
    "nephila": "robots.txt, exact URL seen, digest and SimHash, WARC and CDXJ, journal; one request at a time to a site",
    "wget2": "robots.txt; files as they are; no WARC, no near duplicates, no state to resume from; eight connections. "
             "Version 1.99.1 takes &amp; in a link as it stands: an eighth of the site answers 404 and is not among its pages",
    "wget2-null": "as wget2, and told to keep nothing (-O /dev/null): what its files cost is the difference",
    "scrapy": "robots.txt, URL seen in memory; nothing stored; no WARC, no content dedup; 64 requests at a time",
    "spider": "URL seen in memory; robots.txt only where asked for; nothing stored; no WARC, no dedup; one site a process",
}


def command(name, work, addresses):
    urls = [f"http://{address}:{PORT}/" for address in addresses]
    if name == "nephila":
        return [NEPHILA, "crawl", *urls, "--out", f"{work}/crawl", "--cores", str(CORE),
                "--delay-ms", "0", "--dns", f"127.0.0.1:{PORT + 1}", "--allow-private",
                "--contact", "http://crawler.test/", "--quiet", "--set", "stay=host",
                "--set", "skeleton_page_cap=0"]
    if name.startswith("wget2"):
        kept = ["-O", "/dev/null"] if name == "wget2-null" else ["-P", f"{work}/files"]
        return ["wget2", "-r", "-l", "0", "-q", "--max-threads=8", *kept, *urls]
    if name == "scrapy":
        with open(f"{work}/one_site.py", "w") as out:
            out.write(SPIDER % (urls, [f"{address}:{PORT}" for address in addresses]))
        return [f"{HOME}/venv/bin/scrapy", "runspider", f"{work}/one_site.py"]
    return [f"{HOME}/bin/spider", "--url", urls[0], "--http", "--respect-robots-txt", "crawl", "--output-links"]


def run(name, site_count):
    work = tempfile.mkdtemp(prefix="peers-")
    # The files are removed only at the end. ext4 passes over the inodes of files that were removed
    # in the last minutes, one by one, and whoever creates files next pays for that: wget2 took
    # 1,160 us a page after its own files were removed, and 580 on a disk without removed files.
    atexit.register(shutil.rmtree, work, ignore_errors=True)
    # One crawler's files must not be written back while another runs.
    os.sync()
    log = f"{work}/web.log"
    page_count = PAGES // PARTS.get(name, 1)
    web = subprocess.Popen([NEPHILA, "web", "--profile", "small", "--hosts", str(site_count), "--pages", str(page_count),
                            "--core", str(WEB_CORE), "--listen", f"0.0.0.0:{PORT}", "--dns", f"127.0.0.1:{PORT + 1}",
                            "--log", log], stdout=subprocess.PIPE, stderr=open(f"{work}/web.err", "w"), text=True)
    if not web.stdout.readline():
        sys.exit(f"the web did not start: {open(f'{work}/web.err').read()[-300:].strip()}")
    # The addresses of the web's hosts. Hosts are named by address, so that no crawler needs the
    # web's name server.
    addresses = [f"127.16.0.{site + 1}" for site in range(site_count)]
    try:
        begun = time.monotonic()
        with open(f"{work}/out", "w") as out:
            peer = subprocess.Popen(command(name, work, addresses), stdout=out, stderr=out,
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
            parts = line.split()
            if line.startswith("#") or len(parts) < 10:
                continue
            requests += 1
            host, path, status = parts[7:10]
            if status == "200" and not path.endswith("robots.txt"):
                fetched.add((host, path))
    tail = open(f"{work}/out", errors="replace").read()[-300:].strip()
    cpu = usage.ru_utime + usage.ru_stime
    if not fetched:
        print(f"{name} fetched nothing: {tail}", file=sys.stderr)
    pages = len(fetched)
    return dict(pages=pages, requests=requests, rate=pages / seconds, cpu_us=cpu * 1e6 / max(pages, 1),
                per_cpu=pages / max(cpu, 1e-9), rss=usage.ru_maxrss / 1e3, seconds=seconds)


def compare(names, site_count):
    runs = {name: [] for name in names}
    for _ in range(RUNS):
        for name in names:
            if any(one["seconds"] > SLOW_SECONDS for one in runs[name]):
                continue
            runs[name].append(run(name, site_count))
            print(f"{name}, {site_count}: {runs[name][-1]}", file=sys.stderr)
    print("| crawler | runs | pages | requests | pages/s | CPU us a page | pages/CPU s | least to most | peak MB |\n"
          "|---|---|---|---|---|---|---|---|---|")
    middle = lambda name, key: statistics.median(one[key] for one in runs[name])
    for name in names:
        spread = [one["per_cpu"] for one in runs[name]]
        print(f"| {name} | {len(runs[name])} | {middle(name, 'pages'):.0f} | {middle(name, 'requests'):.0f} | {middle(name, 'rate'):.0f} "
              f"| {middle(name, 'cpu_us'):.0f} | {middle(name, 'per_cpu'):.0f} | {min(spread):.0f} to {max(spread):.0f} | {middle(name, 'rss'):.0f} |")
    others = [name for name in names if name != "nephila" and middle(name, "pages") > 0]
    if others and "nephila" in names:
        others.sort(key=lambda name: middle(name, "per_cpu"), reverse=True)
        times = [f"{middle('nephila', 'per_cpu') / middle(name, 'per_cpu'):.1f} times {name}" for name in others]
        print(f"\nPages a CPU second, the best peer first: {', '.join(times)}.\n")


def main():
    names = [name for name in PEERS if name not in SKIP]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(f"# Peers\n\n`perf/peers {PAGES} {RUNS} {SITES}`: {PAGES:,} pages of 25 KB, no delay, each crawler pinned to one core, "
          f"the web on another; in turns, medians. Scrapy has a thirtieth of the pages. Who took over {SLOW_SECONDS} s was run once. Commit {commit}, {machine.cpu()}, {len(CORES)} cores, "
          f"Linux {platform.release()}, load {os.getloadavg()[0]:.1f}.\n")
    print("## One site\n")
    compare(names, 1)
    print(f"## {SITES} sites\n")
    compare([name for name in names if name != "spider"], SITES)
    print("What each did besides fetching and following links:\n")
    for name in names:
        print(f"- {name}: {PEERS[name]}.")


main()
