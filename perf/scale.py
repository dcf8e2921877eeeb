"""Runs `nephila bench scale` for each count of hosts in turns; called by perf/scale."""
import json, os, platform, statistics, subprocess, sys, tempfile
import machine

NEPHILA = os.environ["NEPHILA"]
ROUNDS, RATE = int(sys.argv[1]), sys.argv[2]
HOSTS = [int(count) for count in sys.argv[3:]]
SECONDS = os.environ.get("SECONDS_MEASURED", "30")
STAGES = ["ring", "visit", "parse", "links", "disk"]


def run(host_count):
    with tempfile.TemporaryDirectory(prefix="scale-", dir="target") as work:
        command = [NEPHILA, "bench", "scale", "--hosts", str(host_count), "--runs", "1", "--slots", "1024", "--seconds", SECONDS,
                   "--warm", "6", "--capacity", RATE, "--dir", work, "--set", "ready_memory_mb=2048", "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stdout[-300:]}")
    return json.loads(done.stdout)["data"]["runs"][0]


def row(host_count, lap):
    page = lap["per_page"]
    stages = " | ".join(f"{page['stages_us'][stage]:.1f}" for stage in STAGES)
    pages = lap["counts"]["pages"]
    referee = "pass" if lap["referee"]["pass"] else "FAIL"
    return (f"| {host_count:,} | {lap['pages_per_second']:.0f} | {page['cpu_us']:.1f} | {stages} | {lap['counts']['urls_new'] / pages:.1f} "
            f"| {lap['counts']['urls_deferred'] / pages:.1f} | {lap['machine']['load_ns']:.0f} | {lap['machine']['hash_ns']:.0f} | {referee} |")


def main():
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(f"# A page's cost by hosts, in turns\n\n`perf/scale {ROUNDS} {RATE} {' '.join(map(str, HOSTS))}`: crawls of one age at {RATE} pages/s, "
          f"a connection for each page, {SECONDS} s measured. Commit {commit}, {machine.cpu()}, {os.cpu_count()} cores, Linux {platform.release()}.\n\n"
          f"In the order in which they were run: us of the core a page, and what the machine was worth in that window (a load from memory, "
          f"a hash of 16 KB, on the same core).\n")
    print(f"| hosts | pages/s | core us/page | {' | '.join(STAGES)} | new links | to the disk | load ns | hash ns | referee |\n"
          f"|---|---|---|{'---|' * len(STAGES)}---|---|---|---|---|", flush=True)
    costs = {count: [] for count in HOSTS}
    for turn in range(ROUNDS):
        for count in HOSTS if turn % 2 == 0 else HOSTS[::-1]:
            lap = run(count)
            costs[count].append(lap)
            print(row(count, lap), flush=True)
    print("\n| hosts | runs | core us/page, median | least to most | against the first | load ns, median |\n|---|---|---|---|---|---|")
    middle = lambda count, of: statistics.median(of(lap) for lap in costs[count])
    cost = lambda lap: lap["per_page"]["cpu_us"]
    for count in HOSTS:
        all_of = [cost(lap) for lap in costs[count]]
        print(f"| {count:,} | {len(all_of)} | {middle(count, cost):.1f} | {min(all_of):.1f} to {max(all_of):.1f} "
              f"| {100 * (middle(count, cost) / middle(HOSTS[0], cost) - 1):+.1f} % | {middle(count, lambda lap: lap['machine']['load_ns']):.0f} |")


main()
