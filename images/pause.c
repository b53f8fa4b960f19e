/* Holds a pod's namespaces: reaps what is orphaned into them and leaves when asked. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int signal_number)
{
	(void)signal_number;
	_exit(0);
}

static void reap(int signal_number)
{
	(void)signal_number;
	while (waitpid(-1, 0, WNOHANG) > 0)
		;
}

int main(void)
{
	struct sigaction on_end = {.sa_handler = leave};
	struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};

	if (sigaction(SIGINT, &on_end, 0) || sigaction(SIGTERM, &on_end, 0) || sigaction(SIGCHLD, &on_child, 0))
		return 1;
	for (;;)
		pause();
}
