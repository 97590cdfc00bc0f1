/* Workloads and faults for simulated GPUs: a C interface, exported by the simulated libnvidia-ml.so.1 and, for streams,
 * libcuda.so.1.
 *
 * The vendor's interface can measure a GPU and slow it down, but it cannot give it work. Here a program says "this much
 * work, of this kind" and waits until a board of the simulated machine has done it, at whatever clocks hold meanwhile.
 * `flyball sim up` makes the machine; every process that calls this, or the vendor's interface, sees the same boards.
 * The environment variable FLYBALL_SIM names the machine; if it is unset or empty, the common machine is meant.
 *
 * Units. Names end with their unit. All times are simulated; with a time scale of 1 they run like the wall clock.
 * Results. Functions return FLYBALL_SIM_OK (0) or one of the errors below, which flyball_sim_error_text puts into
 * words. On an error nothing is written through the pointers.
 * Threads. Everything may be called from any thread at any time. Calls take microseconds, but for those that say that
 * they wait; waiting sleeps, it does not spin.
 * Processes. When a process ends, however it ends, its work and its waiting are taken off the boards.
 */
/* NOLINTBEGIN(readability-identifier-naming): names of a C interface */
#ifndef FLYBALL_SIM_H_
#define FLYBALL_SIM_H_

#ifdef __cplusplus
extern "C" {
#endif

enum {
  FLYBALL_SIM_OK = 0,
  FLYBALL_SIM_NO_MACHINE = 1, /* no machine of that name is up, or it was taken down meanwhile */
  FLYBALL_SIM_INVALID = 2,    /* no such board, kind or fault, or a number out of range */
  FLYBALL_SIM_LOST = 3,       /* the board fell off the bus (a fault) before the work was done */
  FLYBALL_SIM_FULL = 4,       /* the board's table of works (32), processes (32) or faults (8) is full */
  FLYBALL_SIM_SYSTEM = 5      /* the operating system refused */
};

/* When a piece of work began and ended, and the energy that the whole board drew meanwhile, whatever else ran on it. */
typedef struct flyball_sim_run {
  double begin_s;
  double end_s;
  double energy_j;
} flyball_sim_run;

/* What a kind of work asks of a board: the share of its time at the maximum clock that follows the SM clock, and the
 * dynamic power of both parts at the maximum clock. docs/profiles.md describes the model. */
typedef struct flyball_sim_activity {
  double clocked_share; /* 0 to 1 */
  double compute_w;
  double memory_w;
} flyball_sim_activity;

/* The result of a call in words; the text is the library's and never changes. */
const char* flyball_sim_error_text(int result);

/* The number of boards; 0 where there is no machine. */
unsigned flyball_sim_gpu_count(void);

/* Does work on board `gpu` (from 0) that alone takes `seconds_at_max_clock` (above 0, to 1e6) at the board's
 * maximum clock and standard power limit, and waits until it is done. `kind` is "forward" or "backward", as the
 * machine's GPU model and workload have them, or "transfer" or "load": copying, which takes the same time at any
 * clock. On boards that are not ideal, times differ a little from board to board and from one piece of work to the
 * next. Pieces of work, of one process or of several, share a board in equal slices of time, so two take twice as
 * long. `run` may be null. */
int flyball_sim_work(unsigned gpu, const char* kind, double seconds_at_max_clock, flyball_sim_run* run);

/* The same for work of any other kind. */
int flyball_sim_work_like(unsigned gpu, const flyball_sim_activity* activity, double seconds_at_max_clock,
                          flyball_sim_run* run);

/* Queues work in a stream of the simulated libcuda.so.1 (a CUstream; null: the default stream of the thread's current
 * context), which alone exports this function, and does not wait for it. The work begins when all is done that was
 * queued in the stream before. `kind` and `seconds_at_max_clock` are those of flyball_sim_work. Work that fails, as on
 * a lost board, makes later calls on the stream fail (CUDA_ERROR_LAUNCH_FAILED; here FLYBALL_SIM_LOST). */
int flyball_sim_queue_work(void* stream, const char* kind, double seconds_at_max_clock);

/* Between block and unblock this process waits for others with a kernel on the board (a blocked collective), which
 * draws the board's blocking power whenever no work runs on it. Calls nest; each block needs its own unblock. */
int flyball_sim_block(unsigned gpu);
int flyball_sim_unblock(unsigned gpu);

/* Tells what no sensor shows: the board's exact energy since the machine came up, and the simulated time of that figure
 * (`time_s` may be null). */
int flyball_sim_true_energy(unsigned gpu, double* energy_j, double* time_s);

/* Tells the same of a simulated processor package and of its memory (either pointer may be null). */
int flyball_sim_true_cpu_energy(unsigned package, double* package_j, double* dram_j);

/* Tells the machine's time, and how many simulated seconds pass in one second of the wall clock. */
int flyball_sim_time(double* time_s, double* time_scale);

/* Moves the machine's time forward by `seconds` at once, for every process. On a machine with the time scale 0 time
 * passes in no other way. */
int flyball_sim_add_time(double seconds);

/* Puts a fault on a board, where it stays until it is taken back:
 *   "lost"                  every call answers that the GPU is lost; work on it ends with FLYBALL_SIM_LOST
 *   "error:CALL=CODE"       that call of the vendor's interface answers CODE ("error:nvmlDeviceGetPowerUsage=999");
 *                           "*" in place of CALL stands for every call on the board
 *   "hang:CALL=SECONDS"     that call does not return for so many seconds of the wall clock, or until the fault is
 *                           taken back
 *   "counter-frozen"        the energy counter stands still
 *   "counter-wraps=MJ"      the energy counter starts again whenever it reaches so many millijoules
 *   "counter-missing"       the board has no energy counter
 *   "unprivileged"          calls that need root are refused to root, too, unless the calling process has
 *                           FLYBALL_SIM_PRIVILEGED=1 in its environment
 *   "mig"                   the board says that it is divided into instances; boards that cannot be are whole
 *   "hot"                   the chip is at its slowdown temperature and its clock is throttled
 *   "counter-reset"         not a state: the energy counter is zero now */
int flyball_sim_fault(unsigned gpu, const char* fault);

/* Takes all faults of a board back. A board that was lost comes back with nothing locked and a new energy counter. */
int flyball_sim_clear_faults(unsigned gpu);

#ifdef __cplusplus
}
#endif

#endif /* FLYBALL_SIM_H_ */
/* NOLINTEND(readability-identifier-naming) */
