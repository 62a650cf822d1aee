/* The benchmark's worker: writes one line with its name, pid and the monotonic time to a named pipe, then waits for a
 * signal. With a number it first prints that many lines of 100 bytes, and writes a second line when it has. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void stamp(const char *fifo, const char *name, const char *what)
{
	char line[256];
	struct timespec now;
	int fd = open(fifo, O_WRONLY);
	if (fd < 0)
		_exit(111);
	clock_gettime(CLOCK_MONOTONIC, &now);
	int n = snprintf(line, sizeof line, "%s %s %d %lld\n", what, name, (int)getpid(), now.tv_sec * 1000000000LL + now.tv_nsec);
	if (write(fd, line, n) != n)
		_exit(111);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	stamp(argv[1], argv[2], "up");
	if (argc > 3) {
		static char block[100 * 640];
		long left = atol(argv[3]);
		for (int i = 0; i < 640; i++) {
			memset(block + 100 * i, 'x', 99);
			block[100 * i + 99] = '\n';
		}
		while (left > 0) {
			size_t want = (left < 640 ? left : 640) * 100, done = 0;
			while (done < want) {
				ssize_t n = write(1, block + done, want - done);
				if (n < 0)
					return 111;
				done += n;
			}
			left -= 640;
		}
		stamp(argv[1], argv[2], "printed");
	}
	for (;;)
		pause();
}
