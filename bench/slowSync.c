/* Makes each sync of a process take so many microseconds longer: LD_PRELOAD=slowSync.so SLOW_SYNC_MICROS=5000 node ... */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static int slowly(const char *name, int fd) {
  const char *micros = getenv("SLOW_SYNC_MICROS");
  long wait = micros == NULL ? 0 : atol(micros);
  struct timespec time = {wait / 1000000, wait % 1000000 * 1000};
  nanosleep(&time, NULL);
  return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}

int fsync(int fd) { return slowly("fsync", fd); }
int fdatasync(int fd) { return slowly("fdatasync", fd); }
