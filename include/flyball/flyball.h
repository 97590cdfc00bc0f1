/* The C interface of libflyball.so: the training client and, further below, accounting and elastic jobs. The client
 * takes few lines in a training engine (Perseus, SOSP'24, table 2):
 *
 *   flyball_step_begin(s);
 *     flyball_set_speed(s, "forward");   as soon as the computation before has been handed out
 *     ... wait for the activations ...
 *     flyball_begin(s, "forward"); ... compute ...; flyball_end(s, "forward");
 *   flyball_step_end(s);
 *
 * The session then profiles the rank while it trains, reports to `flyball serve`, and sets the clocks that come back.
 *
 * The client does not make the training wait: set_speed costs tens of nanoseconds, begin and end as much, step_begin
 * and step_end some microseconds. Nor does it make the training fail: where a server, an agent or a driver fails,
 * clocks go to their default and the notice function is told once. A null session is allowed everywhere and does
 * nothing, so that a program whose session could not be opened may go on without asking.
 *
 * Units. Names end with their unit; times are in the GPU's seconds (flyball_session_options.time_scale).
 * Errors. Functions return FLYBALL_OK (0) or one of the codes below; flyball_last_error tells the error in words.
 * Ownership. The caller closes what it opened. Strings that are passed in are copied. Strings that are returned belong
 * to the library and hold until the next call of the same thread, unless something else is said below.
 * Threads. step_begin, set_speed, begin, end and step_end of one session, with a stream or without, are for one thread
 * at a time; everything else may be called from any thread. After fork() only the parent may use a session.
 */
/* NOLINTBEGIN(readability-identifier-naming): names of a C interface */
#ifndef FLYBALL_FLYBALL_H_
#define FLYBALL_FLYBALL_H_

#include <stddef.h>
#include <stdint.h>

#define FLYBALL_VERSION_MAJOR 0
#define FLYBALL_VERSION_MINOR 1
#define FLYBALL_VERSION_PATCH 0

#if defined(__GNUC__)
#define FLYBALL_API __attribute__((visibility("default")))
#else
#define FLYBALL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
  FLYBALL_OK = 0,
  FLYBALL_USAGE = 1,     /* the caller's mistake: a value that is not allowed, or a call out of order */
  FLYBALL_SYSTEM = 2,    /* no such device, no permission, the operating system refused */
  FLYBALL_FAULT = 3,     /* anything else; please report it */
  FLYBALL_INCOMPLETE = 4 /* from flyball_window_end alone: there are figures, but the energy is not all that flowed */
};

typedef struct flyball_session flyball_session;

/* What a session is to do. Set it up with flyball_session_options_init and change what you need. The options that
 * describe the job must be the same on every rank. A null stands for the default; memory_limit points to one number per
 * stage.
 * The comments are the options' descriptions; `flyball messages SessionOptions` has the bounds, too, beyond which a
 * value is refused. */
typedef struct flyball_session_options {
  size_t size; /* of this structure, as the caller was compiled */

  /* The planning server: HOST:PORT, https://HOST:PORT (see ca_file) or the path of a Unix socket. Empty: no server;
   * the rank is still profiled and measured. */
  const char* server;
  /* The job's id; if there is a server, 1 to 128 letters, digits, '.', '_', '+' and '-'. */
  const char* job;
  /* The job's secret: 32 to 128 letters, digits, '_' and '-'. */
  const char* token;

  /* The order in which stages run their instructions. One of: gpipe, 1f1b, interleaved-1f1b, early-recompute-1f1b,
   * zb-h1. Default: 1f1b. */
  const char* schedule;
  /* The planner that makes the frontier. If it is missing: joint, if the ranks execute an order and a memory limit
   * is given or measured, otherwise perseus. One of: perseus, joint, envpipe, envpipe-greedy,
   * envpipe-no-reconfigure, max, uniform, zeus-global, zeus-per-stage. */
  const char* planner;
  /* Number of stages of a pipeline. Default: 1. */
  int stages;
  /* Number of microbatches of one pipeline in an iteration. Default: 1. */
  int microbatches;
  /* Number of model chunks of a stage. Default: 1. */
  int chunks;
  /* Number of pipelines of the job. Default: 1. */
  int data_parallel;
  /* Number of ranks of a stage. A job may have 131,072 ranks in all. Default: 1. */
  int tensor_parallel;
  /* Blocking power: what a GPU draws while it waits for others. 0: as the sweep measures it, or 75 W if hardly any
   * GPU waits. */
  double blocking_w;
  /* Noise of the energy meter, as a share of the energy (0.01 is 1 %): a smaller difference between two measurements
   * does not count. Default: 0.0. */
  double noise;
  /* Number of microbatches whose activations fit into memory; one number for all stages, or one per stage. Planners
   * that reorder (joint, envpipe) keep to it. If it is missing, what the ranks say of their memory is the limit, or
   * if they say nothing, there is none. */
  const int* memory_limit;

  /* Number of the rank in the job, from 0. Default: 0. */
  int rank;
  /* Number of the rank's pipeline, from 0. Default: 0. */
  int dp_rank;
  /* Number of the rank's stage, from 0. Default: 0. */
  int pp_rank;
  /* Number of the rank within its stage, from 0. Default: 0. */
  int tp_rank;

  /* Number of the rank's GPU: the agent's number if the agent sets the clocks, otherwise the number that `flyball
   * devices` shows. Default: 0. */
  unsigned gpu;
  /* Where clocks are set: "device", "none" or the agent's address ("/run/flyball/agent.sock", "HOST:PORT"). Empty:
   * through the agent if one listens at its usual place, otherwise on the device itself. */
  const char* clocks;

  /* Whether to profile the rank while it trains, by a sweep over its clocks. Default: 1. */
  int profile;
  /* Number of steps that the sweep measures at each clock; more, up to four times as many, where the energy counter
   * changes fewer than a hundred times meanwhile. Default: 5. */
  int steps_per_clock;
  /* Number of clocks in a row at which the energy of a step's computations must rise to end the sweep. Default: 5. */
  int rises_to_stop;
  /* Spacing of the sweep's clocks: 1 measures at every clock of the GPU, 2 at every second one. Default: 1. */
  int clock_stride;
  /* Time after a clock change during which nothing is measured. Default: 0.03. */
  double settle_s;

  /* Time between two readings of the energy counter; at the default, more where a reading is dear. Default: 0.004. */
  double sampling_s;
  /* Time between two checks of the control thread for a new clock. Default: 0.0005. */
  double clock_poll_s;
  /* Seconds of the GPU in one second of this machine; 1 unless the GPU is simulated. Default: 1.0. */
  double time_scale;

  /* Told in a sentence of what fails and works again, by a thread of the session; null: nobody. Must not call back
   * into the session. */
  void (*notice)(void* user, const char* words);
  void* user;

  /* Time from a clock change until it takes effect. The plan avoids changes that do not pay, and counts what the
   * others cost. 0: as the sweep measures it. */
  double switch_latency_s;
  /* Least time between two clock changes of one stage. Default: 0.0. */
  double min_dwell_s;
  /* Whether planners that adjust a plan from step to step (envpipe, envpipe-greedy) learn from the iterations that
   * the ranks run and report, rather than from emulated ones. Default: 1. */
  int executed_steps;
  /* PEM file of the authorities from which the certificate of an https:// server may come. Empty: the authorities
   * that this machine trusts. */
  const char* ca_file;
  /* Token to register the job with, if the server asks for one. Empty: the content of the environment variable
   * FLYBALL_REGISTRATION_TOKEN, or of the file that FLYBALL_REGISTRATION_TOKEN_FILE names. */
  const char* registration_token;

  /* Whether a transfer, which is measured as `p2p`, occupies the stage that sends as well as the one that receives.
   * It then begins when both stages are ready for it. With chunks, a stage exchanges all that it sends and receives
   * for a forward and the backward behind it together, as Megatron Core does if overlap_p2p_comm is off. Default: 0. */
  int transfers_occupy_both;

  /* Whether the ranks can run their computations in an order that the planner chooses. They then run it in those
   * iterations for which all ranks of a pipeline hold it. If not, every planner keeps the schedule's order. Default:
   * 0. */
  int executes_order;
  /* Whether planners may choose another order than the schedule's. fixed: they keep it; free: they may change it, if
   * the ranks execute an order. If it is missing, planners that are named (joint, envpipe) may, and so may the
   * default one if a memory limit is given. One of: fixed, free. */
  const char* order;

  /* The most that all GPUs of the job together (stages * data_parallel * tensor_parallel) may draw at any moment, as
   * the plan is emulated. 0: there is no such limit. */
  double max_power_w;
  /* The most by which the job's power, averaged over ramp_window_s, may change per second from one such window to
   * the next, in watts per second. 0: there is no such limit. */
  double max_ramp_w_per_s;
  /* Time over which power is averaged for max_ramp_w_per_s. Default: 1.0. */
  double ramp_window_s;

  /* A plan file to run, without a server: `plan.json` of `flyball plan`, or a list of clocks as Zeus, Perseus and
   * Kareus have them (freqs_pipeline_N.py). The same on every rank. A session with a plan profiles only when it is
   * told to do so again. */
  const char* plan;
  /* What an iteration by the plan may take, as a multiple of one at maximum clocks; if it takes longer, the plan is
   * given up. 0: as the plan file promises, or 1 if it promises nothing. Default: 0.0. */
  double plan_time_ratio;

  /* Whether the ranks post transfers that occupy both stages where their schedules say so. If not, a job with such
   * transfers keeps its schedule's order, since its stages would wait for each other in a circle. Default: 0. */
  int places_transfers;
  /* Whether a computation's clock is asked for while the one before it runs, as long before its end as a change
   * takes, so that the clock holds when the computation begins. Plans then count on that. Default: 1. */
  int clocks_ahead;
} flyball_session_options;

/* Fills in the defaults above. `size` is sizeof *options, as the caller was compiled: nothing is written beyond it. */
FLYBALL_API void flyball_session_options_init(flyball_session_options* options, size_t size);

/* Opens a session. Returns null where that fails; flyball_last_error tells why. */
FLYBALL_API flyball_session* flyball_session_open(const flyball_session_options* options);
/* Closes a session. Clocks are at their default afterwards. A server that answers is told, and waited for half a second
 * at most. */
FLYBALL_API void flyball_session_close(flyball_session* session);

/* The next five are called from the training loop. `type` is "forward", "backward", "recompute", "backward_input" or
 * "backward_weight", with ".N" for model chunk N > 0, or a constant-time operation ("p2p", "gradient_sync",
 * "optimizer_step", "data_load"). */
FLYBALL_API int flyball_step_begin(flyball_session* session);
/* Asks for the clock of the next computation. A null `type` stands for whatever the schedule has next. Engines in which
 * the computations can be found, but not the waits before them, pass null at the begin of a step and after every
 * computation. */
FLYBALL_API int flyball_set_speed(flyball_session* session, const char* type);
FLYBALL_API int flyball_begin(flyball_session* session, const char* type);
FLYBALL_API int flyball_end(flyball_session* session, const char* type);
FLYBALL_API int flyball_step_end(flyball_session* session);

/* For engines that queue their work in a stream of the GPU and run ahead of it: the clock is asked for, and begin and
 * end are noted, when the GPU has done all that was queued in the stream before, whenever that is. Otherwise these
 * calls are like the three above, and both kinds may be used in one step.
 *
 *   flyball_step_begin(s);
 *     flyball_set_speed_in(s, "forward", stream);
 *     flyball_begin_in(s, "forward", stream); ... queue the computation ...; flyball_end_in(s, "forward", stream);
 *   ... wait for the GPU ...
 *   flyball_step_end(s);
 *
 * `stream` is a CUstream (cudaStream_t) or a hipStream_t; null is the default stream of the calling thread's context.
 * Where there is a clock to set, the calls queue a host function (cuLaunchHostFunc, hipLaunchHostFunc) in a stream of
 * the session's own, and where there is a moment to note, an event; both take the driver some microseconds, and the
 * stream goes on. The driver's library must be loaded in the process, as it is in one that has a stream, and the
 * context of the stream's GPU current in the thread; FLYBALL_SYSTEM where they are not, or where the driver refuses.
 * While the rank profiles itself, and while flyball_session_state.reconfiguring is set, the GPU must have done the
 * step's computations before flyball_step_end: a step that it has not done is not measured, and the notice function is
 * told once. */
FLYBALL_API int flyball_set_speed_in(flyball_session* session, const char* type, void* stream);
FLYBALL_API int flyball_begin_in(flyball_session* session, const char* type, void* stream);
FLYBALL_API int flyball_end_in(flyball_session* session, const char* type, void* stream);

/* Engines that can run their computations in any order (options.executes_order) are given the order that saves most
 * energy. Stages that run different orders wait for each other for ever, so all ranks of a pipeline change together:
 *
 *   int64_t held = flyball_order_held(s);                       before each step, on every rank
 *   ... least and greatest `held` of all ranks of the pipeline, by an all-reduce or whatever connects them ...
 *   flyball_use_order(s, least == greatest ? held : 0);
 *   flyball_step_begin(s);
 *   size_t count = flyball_order_in_use(s, &computations);      0: run the order of options.schedule
 *
 * A rank that has no session, or whose server is away, holds 0. The functions do not wait. They are for the training
 * loop's thread, between two steps. */
typedef struct flyball_computation {
  const char* instruction; /* "forward", ...; without a chunk's suffix */
  int microbatch;
  int chunk;
  int clock_mhz; /* as planned; 0: as it is */
} flyball_computation;

/* Tells the server what fits into memory, for jobs without options.memory_limit: the bytes that the activations of one
 * microbatch hold from its forward to its backward, and the bytes that there are for those of all that this rank holds
 * at once. Leave a margin out of the latter: the allocator loses memory to fragmentation, and other allocations grow.
 * Of a stage the rank of which fewest fit counts; a stage of which a rank says nothing keeps to the schedule's own
 * number. Call it before the sweep ends, and again when less fits; 0 and 0: not known any more. Does not wait. */
FLYBALL_API int flyball_set_memory(flyball_session* session, int64_t microbatch_bytes, int64_t activation_bytes);
/* Returns the number of the newest schedule's order, which is the same on all ranks that hold this order; 0: that of
 * options.schedule, or there is no schedule. */
FLYBALL_API int64_t flyball_order_held(flyball_session* session);
/* Says in which order the next steps run: 0, or what flyball_order_held has returned last. Clocks that were planned for
 * another order are not set. */
FLYBALL_API int flyball_use_order(flyball_session* session, int64_t order);
/* Tells what this stage is to run, in that order, and returns how many computations these are. They belong to the
 * session and hold until the next flyball_use_order. None, and null: the order of options.schedule. */
FLYBALL_API size_t flyball_order_in_use(flyball_session* session, const flyball_computation** computations);

/* How many messages a stage sends and receives before a computation and after the one before it: activations to the
 * next stage and from the one before, gradients to the one before and from the next. They are posted together; messages
 * of one kind go in the order of their microbatches. After its last computation a stage sends what is left. */
typedef struct flyball_transfers {
  int send_forward;
  int receive_forward;
  int send_backward;
  int receive_backward;
} flyball_transfers;

/* Where transfers occupy both stages (options.transfers_occupy_both), stages in another order than that of
 * options.schedule lock up unless they agree on the order of their transfers, too. Tells what this stage posts before
 * each of the computations of flyball_order_in_use; it holds as long as those. Returns how many these are; 0, and null,
 * where each message is to be sent when it is made and received when it is needed. */
FLYBALL_API size_t flyball_transfers_in_use(flyball_session* session, const flyball_transfers** transfers);

/* Gives notice that in `delay_s` seconds rank `id` (or, if below 0, something outside the job) will take `degree` times
 * its usual iteration time; a degree of 1 says that it has recovered. The notice is sent in the background. */
FLYBALL_API int flyball_set_straggler(flyball_session* session, int id, double delay_s, double degree);

/* Starts the sweep over with the next step. The session drops at once all that it has measured before. The server, when
 * the sweep is over, replaces what it had of each instruction that the sweep has measured, and drops the draw of
 * waiting where the sweep saw too little waiting to tell it. */
FLYBALL_API int flyball_profile_again(flyball_session* session);

enum { FLYBALL_UNKNOWN = 0, FLYBALL_KEPT = 1, FLYBALL_SLOWER = 2, FLYBALL_DEARER = 3 };

enum { FLYBALL_PROFILING = 0, FLYBALL_WAITING = 1, FLYBALL_RUNNING = 2, FLYBALL_IDLE = 3 };

/* What a session says of itself. Times are in the GPU's seconds. `phase` and `promise` are the constants above. */
typedef struct flyball_session_state {
  size_t size; /* set by the caller before the call */
  /* What the session is doing. */
  int phase;
  /* Clocks that the sweep has measured. */
  int clocks_done;
  /* What clocks_done is at the end of the sweep if the energy keeps falling. */
  int clocks_most;
  /* Whether the planning server answers. */
  int server_reachable;
  /* Version of the schedule in force; 0: there is none. */
  int64_t schedule_version;
  /* The schedule's point of the frontier. */
  uint64_t schedule_point;
  /* Time of an iteration, as the schedule in force promises. */
  double planned_time_s;
  /* Energy of one pipeline, without waiting for others, as the schedule in force promises. */
  double planned_energy_j;
  /* Steps that have ended. */
  uint64_t steps;
  /* Time of the last of them. */
  double last_step_s;
  /* What this GPU draws while it waits, mean over the sweep; 0 until it is measured. */
  double waiting_w;
  /* False while clocks are refused. */
  int clocks_working;
  /* How many clocks have reached the device. */
  uint64_t clocks_set;
  /* How many attempts to set one were refused. */
  uint64_t clocks_refused;
  /* The clock that was asked for last; 0: the default. */
  double clock_mhz;
  /* Time from set_speed until the clock has reached the device, in this machine's seconds: median. */
  double clock_age_p50_s;
  /* The same: 99th percentile. */
  double clock_age_p99_s;
  /* Whether the schedule in force is being adjusted from step to step; see executed_steps. */
  int reconfiguring;
  /* What one pipeline draws while it waits for others after its iteration, as the schedule says. */
  double straggler_w;
  /* The number of the order in which the step runs; 0: that of the schedule in the options. */
  int64_t order;
  /* Whether iterations take what the schedule in force promises. Slower: they took longer, and the clocks are at
   * their default until the server sends another schedule. Dearer: this GPU takes more energy than at maximum
   * clocks; what follows is the server's to decide, which knows the other GPUs. */
  int promise;
  /* What an iteration takes at maximum clocks, as measured; 0: unknown. */
  double at_maximum_s;
  /* Iterations by plan whose energy is known, since the session began. */
  int64_t compared_iterations;
  /* What they took of this rank's GPU, by its own counter. */
  double compared_energy_j;
  /* What as many iterations at maximum clocks take. */
  double compared_energy_at_maximum_j;
  /* Standard error of the difference of these energies. */
  double compared_energy_error_j;
  /* Power limit that the session holds on the board, for its plan; 0: what held before. */
  double power_limit_w;
} flyball_session_state;

FLYBALL_API int flyball_session_get_state(flyball_session* session, flyball_session_state* state);

/* Returns what the sweep has measured so far, as the profile that `flyball plan` reads: a header and lines
 * `stage,instruction,frequency,time,energy` (MHz, s, J). Linear in its length. */
FLYBALL_API const char* flyball_profile_csv(flyball_session* session);

/* Measures time and energy of this rank's GPU between the two calls, from its counter. flyball_window_end waits for two
 * of the counter's periods. It returns FLYBALL_INCOMPLETE, with both figures, where the counter hung, failed or stood
 * still meanwhile: the energy is then less than what flowed, or a guess, and flyball_last_error says why. */
FLYBALL_API int flyball_window_begin(flyball_session* session);
FLYBALL_API int flyball_window_end(flyball_session* session, double* time_s, double* energy_j);

/* Accounting sessions: the node's agent (`flyball agent`) records the power of its devices while a piece of a program
 * runs, and `flyball account` lays the trace over what the framework's profiler wrote meanwhile.
 *
 *   flyball_account_start(NULL);
 *   ... train, under the profiler ...
 *   flyball_account_stop(NULL, NULL, NULL);
 *   flyball_account_write(NULL, NULL, "power.csv");     flyball account --events trace.json --power power.csv
 *
 * An accounting session belongs to its user, under a name, and to no process: it goes on when the process that began it
 * ends, and any other process of the user may stop and read it, as `flyball account` does. There is nothing to close:
 * each call makes a connection of its own, and is safe from any thread and after fork().
 * `agent` is "/path/to/socket" or "host:port"; null or "" stands for what FLYBALL_AGENT names, else for the usual
 * socket. `name` is 1 to 64 letters, digits, '.', '_', '-', not dots alone; null or "" stands for "default".
 * Errors. FLYBALL_USAGE for a value that is not allowed, FLYBALL_SYSTEM where there is no agent or it refuses (no such
 * session, it records already, too many sessions). Unlike the calls of the training loop, these wait for the agent. */
typedef struct flyball_account_options {
  size_t size; /* of this structure, as the caller was compiled */
  const char* agent;
  const char* name;
  const unsigned* gpus; /* the numbers of gpu_count GPUs, as the driver counts; null: all GPUs of the node */
  size_t gpu_count;     /* 0 where gpus is not null: no GPU */
  int cpus;             /* whether to record processors and their memory, too. Default: 1 */
  double row_period_s;  /* at most one row of a device in this time. Default: 0, every change of its sensor is a row */
} flyball_account_options;

/* Fills in the defaults above. `size` is sizeof *options, as the caller was compiled: nothing is written beyond it. */
FLYBALL_API void flyball_account_options_init(flyball_account_options* options, size_t size);

enum {
  FLYBALL_ACCOUNT_RECORDING = 0,
  FLYBALL_ACCOUNT_STOPPED = 1,
  FLYBALL_ACCOUNT_TOO_LONG = 2, /* the agent ended the session; nothing later was recorded */
  FLYBALL_ACCOUNT_TOO_LARGE = 3 /* likewise */
};

/* The state of an accounting session. Its strings hold until this thread's next flyball_account_ call. */
typedef struct flyball_account_state {
  size_t size; /* set by the caller before the call */
  int state;   /* FLYBALL_ACCOUNT_RECORDING, ... */
  double begin_unix_s;
  double length_s; /* from its begin until its end, or until now */
  uint64_t rows;
  uint64_t bytes;
  const char* devices;  /* "GPU:0,CPU:0" */
  const char* ended;    /* why it ended, in words; "" while it records */
  const char* failures; /* a line for each device whose rows are missing; "" where there is none */
} flyball_account_state;

/* Starts a recording. Returns once all sensors have been seen to change, after half a second at most, so that all that
 * follows is recorded. Null options stand for the defaults. */
FLYBALL_API int flyball_account_start(const flyball_account_options* options);

/* Ends a recording. Returns once the sensors have shown the energy that flowed until now, after half a second at most.
 * Does nothing to a session that has ended. `state`, here and below, receives the session's state unless it is null. */
FLYBALL_API int flyball_account_stop(const char* agent, const char* name, flyball_account_state* state);
FLYBALL_API int flyball_account_get_state(const char* agent, const char* name, flyball_account_state* state);

/* Reads the power trace so far, as `flyball account --power` reads it (docs/formats/power-trace.md), in pieces of whole
 * lines of about a MiB, 64 MiB at most in all. The sink is called with each piece; `data` is valid during that call. A
 * sink that returns other than 0 ends the reading, which is no error. */
typedef int (*flyball_account_sink)(void* user, const char* data, size_t size);
FLYBALL_API int flyball_account_read(const char* agent, const char* name, flyball_account_sink sink, void* user);

/* Writes the same trace into a file. Where the trace cannot be had, the file keeps what it held before. */
FLYBALL_API int flyball_account_write(const char* agent, const char* name, const char* path);

/* Ends the session and forgets its trace, which would otherwise be kept for an hour after its end. */
FLYBALL_API int flyball_account_drop(const char* agent, const char* name);

/* Footprints: joules per tensor, layer and module of a model, computed from an event trace and a power trace as
 * `flyball account` does it.
 *
 *   flyball_footprint* f = flyball_footprint_open("{\"events\": \"trace.json\", \"power\": \"power.csv\"}");
 *   flyball_footprint_row row = {.size = sizeof row};
 *   for (size_t i = 0; flyball_footprint_get_row(f, i, &row) == FLYBALL_OK; ++i)
 *     printf("%s %g J\n", row.name, row.energy_j);
 *   flyball_footprint_close(f);
 *
 * Source: Smaragdine, definition 3.4. A footprint is immutable, so that its rows may be read from any thread. */
typedef struct flyball_footprint flyball_footprint;

/* The operations of one name on one device in one pass. The strings hold until the footprint is closed. */
typedef struct flyball_footprint_row {
  size_t size;      /* set by the caller before the call */
  const char* name; /* parts of the model are parted by '/' */
  const char* device;
  const char* phase; /* "forward", "backward", "optimizer"; "" where unknown */
  double energy_j;
  double busy_s;         /* the time in which they ran */
  double powered_s;      /* the part of busy_s for which the power is known */
  double energy_std_j;   /* standard deviation over the runs; 0 for a single run, NaN where unknown */
  double energy_error_j; /* half of a 90 % interval around energy_j, by what the readings tell; NaN where unknown */
  int group;             /* rows of one number always run together: only their sum is known; 0: none */
} flyball_footprint_row;

/* Computes a footprint. `options` is a JSON object whose fields `flyball messages AccountOptions` lists; paths are
 * UTF-8. This takes as long as `flyball account` does: a second for five million events. Returns null where the options
 * or the traces are wrong; flyball_last_error tells what. */
FLYBALL_API flyball_footprint* flyball_footprint_open(const char* options);
FLYBALL_API void flyball_footprint_close(flyball_footprint* footprint); /* null: nothing */

/* Fills in the row of this index; the row of most energy is the first. Returns FLYBALL_USAGE beyond the last row. */
FLYBALL_API int flyball_footprint_get_row(const flyball_footprint* footprint, size_t index, flyball_footprint_row* row);

/* Returns the whole footprint as JSON: rows, devices and notes (docs/formats/footprint.md). The text holds until the
 * footprint is closed. */
FLYBALL_API const char* flyball_footprint_json(const flyball_footprint* footprint);

/* Elastic jobs: a job of a Slurm cluster (sbatch --flyball=elastic,...) whose GPUs the controller, `flyball cluster
 * run`, may change. The job reports after each iteration; when it is told to stop, it writes a checkpoint and ends, and
 * Slurm starts it again with other GPUs. One process of the job does this, and tells the others.
 *
 *   flyball_elastic* e = rank == 0 ? flyball_elastic_open(world_size, NULL, NULL) : NULL;
 *   for (int64_t i = read_checkpoint(); i < iterations;) {
 *     double step_s = train();
 *     int stop = broadcast_from_rank_0(flyball_elastic_report(e, ++i, iterations, step_s));
 *     if (stop) { write_checkpoint(i); break; }
 *   }
 *   flyball_elastic_close(e);
 *
 * The controller's address is in the environment variable FLYBALL_CLUSTER, the job's number in SLURM_JOB_ID. Without
 * them nothing is reported, and `notice` is told so once. By TLS the job shows the token in FLYBALL_JOB_TOKEN; the
 * controller's authorities are in the file that FLYBALL_CLUSTER_CA names, or are the system's. A controller that is
 * away never makes the training wait more than 0.1 s: the answer then is 0, the newest report is sent later, and
 * `notice` is told once. At most two reports in a second are sent, and that of the last iteration.
 *
 * A job with "shrinks" in its option may be told to go on with some of its nodes in place of ending: where a report is
 * answered with 1 and flyball_elastic_keeps names nodes, it writes a checkpoint or moves its state, leaves the other
 * nodes, and goes on with these. It says so by the number of GPUs with which a new process opens its elastic job, or by
 * flyball_elastic_go_on. Only then are the other nodes taken from it; what of it still runs there is ended. */
typedef struct flyball_elastic flyball_elastic;

/* `gpus` is how many the job has now; 0: Slurm's nodes times its GPUs on this one. `notice` is called by
 * flyball_elastic_report, in its thread; null: standard error. Returns null where FLYBALL_CLUSTER is no address, or
 * `gpus` is below 0; flyball_last_error tells why. */
FLYBALL_API flyball_elastic* flyball_elastic_open(int gpus, void (*notice)(void* user, const char* words), void* user);

/* Reports that `iteration` of `iterations` are done, the last of which took `step_s`. Returns 1 where the job is to
 * write a checkpoint and end, else 0: also where `elastic` is null, or the numbers are below 0, which
 * flyball_last_error tells. For one thread at a time. */
FLYBALL_API int flyball_elastic_report(flyball_elastic* elastic, int64_t iteration, int64_t iterations, double step_s);

/* Returns the names of the nodes with which the job is to go on, such as "n1,n2", where the last report was answered
 * so; else "". The text holds until the next call with `elastic`. */
FLYBALL_API const char* flyball_elastic_keeps(const flyball_elastic* elastic);

/* Says at once that the job runs on so many GPUs from now on, and on no others. Returns FLYBALL_USAGE below 1. */
FLYBALL_API int flyball_elastic_go_on(flyball_elastic* elastic, int gpus);

/* Waits half a second at most for a report that is under way. Null: nothing. */
FLYBALL_API void flyball_elastic_close(flyball_elastic* elastic);

/* Returns the error of this thread's last call that failed, in words; "" where none did. */
FLYBALL_API const char* flyball_last_error(void);

/* Returns the version of the library, such as "0.1.0". */
FLYBALL_API const char* flyball_version(void);

#ifdef __cplusplus
}
#endif

#endif /* FLYBALL_FLYBALL_H_ */
/* NOLINTEND(readability-identifier-naming) */
