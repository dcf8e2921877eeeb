// Preloaded into the crawler by perf/held (LD_PRELOAD): makes threads of a crawl's shards lose their
// core for HELD_MS, in two ways.
//
// 1. At the end of one io_uring_enter in HELD_ONE_IN, at random: where glommio's reactor arms its
//    timers, and where our driver comes back from its sleep.
// 2. At any instruction: every HELD_EVERY_MS or so, at random, a thread whose name begins with
//    "shard-" gets a signal, and sleeps in its handler.
//
// Nothing else changes. The value 0 turns a way off. At the end stderr says how often each was done.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long (*real)(long, ...);
static int one_in, every_ms, held_ms;
static __thread unsigned dice;
static atomic_long at_calls, anywhere;

static void hold(void) {
  struct timespec span = {held_ms / 1000, held_ms % 1000 * 1000000L};
  while (nanosleep(&span, &span) != 0 && errno == EINTR) {
  }
}

long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  if (!real) real = dlsym(RTLD_NEXT, "syscall");
  long result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (number == SYS_io_uring_enter && one_in > 0) {
    int error = errno;
    if (!dice) dice = (unsigned)(long)&dice ^ (unsigned)getpid();
    if (rand_r(&dice) % (unsigned)one_in == 0) {
      atomic_fetch_add(&at_calls, 1);
      hold();
    }
    errno = error;
  }
  return result;
}

static void on_signal(int signal) {
  (void)signal;
  int error = errno;
  atomic_fetch_add(&anywhere, 1);
  hold();
  errno = error;
}

// Returns one thread of a shard at random, or 0 if there is none yet.
static pid_t a_shard(void) {
  pid_t found = 0;
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) return 0;
  for (struct dirent *entry; (entry = readdir(tasks));) {
    char path[320], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (!file) continue;
    if (fgets(name, sizeof name, file) && !strncmp(name, "shard-", 6)) {
      count++;
      if (rand_r(&dice) % (unsigned)count == 0) found = atoi(entry->d_name);
    }
    fclose(file);
  }
  closedir(tasks);
  return found;
}

static void *strike(void *unused) {
  (void)unused;
  dice = (unsigned)time(NULL) ^ (unsigned)getpid();
  for (;;) {
    unsigned wait_ms = 1 + rand_r(&dice) % (2 * (unsigned)every_ms);
    struct timespec wait = {wait_ms / 1000, wait_ms % 1000 * 1000000L};
    nanosleep(&wait, NULL);
    pid_t thread = a_shard();
    if (thread) real(SYS_tgkill, (long)getpid(), (long)thread, (long)SIGRTMIN, 0L, 0L, 0L);
  }
  return NULL;
}

static int setting(const char *name) {
  const char *text = getenv(name);
  return text ? atoi(text) : 0;
}

__attribute__((constructor)) static void begin(void) {
  real = dlsym(RTLD_NEXT, "syscall");
  one_in = setting("HELD_ONE_IN");
  every_ms = setting("HELD_EVERY_MS");
  held_ms = setting("HELD_MS");
  if (every_ms <= 0) return;
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGRTMIN, &action, NULL);
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_create(&thread, NULL, strike, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

__attribute__((destructor)) static void end(void) {
  fprintf(stderr, "held: %ld times at the end of a call, %ld times anywhere\n",
          atomic_load(&at_calls), atomic_load(&anywhere));
}
