// The controller of a real cluster: a host of the scheduler (cluster/scheduler.h) that lives in real time. Each cycle
// looks at the cluster engine, tells the scheduler what has happened, writes down what is wanted from now on
// (controller_store.h), and takes the next step of every job that is on its way (transition.h).
//
// A job that is not elastic is left alone. Nodes on which such jobs have GPUs are out of use as a whole, and so are
// those that are down or drained; an elastic job that shares a node with one of them stays as it is until it is alone
// again. A job that says that it can goes on with some of its nodes, instead of ending, where it is to have fewer
// (controller_shrinks.cpp). What GPUs without elastic jobs draw is taken off the budget. A job that waits is held where
// the scheduler can place it; only holds of our own are undone. A job in transition is held; the policy does not touch
// it. Where a transition comes to nothing, the job is left as it is for a while, and for good the third time. A start
// of ours that the engine could not make comes to nothing, too, and is made again.
//
// Where it may, it has the engine switch nodes off that have been idle for long, and wakes those on which the scheduler
// has put a job, before that job stops where it runs (controller_nodes.cpp).
//
// With agents, the clocks of elastic jobs' GPUs are set as the scheduler decides and as the limit allows at each moment
// (clock_keeper.h), and watts are those that the agents measure. Between two cycles, and while the engine does not
// answer, adjust() does that alone. With a planning server, a pipeline job that says so is moved along its frontier in
// the same way (job_paces.h); it is never held, put back or resized.
//
// One thread calls cycle(); all other functions are thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/names.h"
#include "cluster/scheduler.h"
#include "controller/clock_keeper.h"
#include "controller/cluster_engine.h"
#include "controller/controller_store.h"
#include "controller/elastic_option.h"
#include "controller/job_paces.h"
#include "controller/node_agents.h"
#include "controller/transition.h"
#include "wire/cluster_messages.h"

namespace flyball {

enum class ControllerMode {
  kActs,
  kObserves,  // learns what running jobs cost; decides nothing
  kDryRun     // decides, and does nothing; for one cycle
};
template <>
inline constexpr auto kNamesOf<ControllerMode> = name_list("acts", "observes", "dry run");

struct ControllerOptions {
  ClusterSpec spec;  // of the GPUs, complete; nodes and gpus_per_node are taken from the engine
  std::string policy{kDefaultPolicy};
  std::optional<Megahertz> clock;  // of all jobs, for policies that choose none
  Watts budget;                    // of all GPUs, unless and until an order counts
  ControllerMode mode = ControllerMode::kActs;
  Seconds stop_within{30};     // how long a job may take to end once it was asked to
  Seconds settle_within{120};  // how long a transition may take besides
  Seconds back_off{60};  // how long a job is left alone after its first failed transition; twice that after the next
  // How long a cycle asks things of the engine before it looks at the cluster again; the rest is asked for then.
  Seconds act_within{std::numeric_limits<double>::infinity()};
  int tries = 3;  // failed transitions after which it is left alone for good
  // How long a job waits of which the engine has forgotten a start, since what was started may still run, and all jobs
  // that are to start, once the engine answers again: one that has just begun may start them without GPUs.
  Seconds forgotten_for{10};
  NodeAgents* agents = nullptr;  // must outlive the controller; null: no clock is set, and no watts are read
  JobPaces* plans = nullptr;     // likewise; null: pipeline jobs are left alone. Takes `agents`
  // So long before a lower budget begins it counts already, so that clocks are lower by then; where jobs have to stop
  // for it, `stop_within` longer.
  Seconds lower_before{5};
  // Nodes that have been idle for so long are switched off; none: none is. How long they take to wake is
  // ClusterSpec::wake until it was measured.
  std::optional<Seconds> nodes_off_after;
  // Whose nodes and jobs the controller has, all others being left alone; none: all nodes, and the jobs that may have
  // each of these.
  std::optional<std::string> partition;
  int nodes_kept_on = 1;           // so many that are empty stay on, for what comes next
  Seconds meter_others_after{15};  // how long a job that is not elastic must run before its meters are believed
};

// A report that cannot be taken. `status` is HTTP's: 403 where the job is another user's, 404 where there is none, 503
// before the first cycle, when nothing is known of any job.
class ReportRefusal : public Error {
 public:
  ReportRefusal(unsigned status, const std::string& what) : Error(what), status_(status) {}
  [[nodiscard]] unsigned status() const { return status_; }

 private:
  unsigned status_;
};

class Controller : private SchedulerHost {
 public:
  using Log = std::function<void(const std::string& words)>;

  // Engine and store must outlive this object. Throws DatabaseError, and UsageError for a policy that keeps no budget
  // and is given no clock, or whose clocks nobody would set.
  Controller(ClusterEngine& engine, ControllerStore& store, ControllerOptions options, Log log);
  ~Controller() override;

  // Looks and acts once. `now` is Unix time, and never goes back. Throws SystemError and InputError where the engine
  // cannot be asked, when nothing has been done; UsageError for a cluster without GPUs. An act that the engine refuses
  // is logged and tried again in a later cycle. Blocks as long as the engine's calls.
  void cycle(Seconds now);

  // Takes a job's report, and answers whether it is to stop. `user` is who reports, if that is known. Throws
  // ReportRefusal.
  [[nodiscard]] ElasticAnswer report(std::int64_t job, std::optional<std::int64_t> user, const ElasticReport& told);
  // Calls what on_order() was given.
  void order_budget(const BudgetOrder& order);
  // In the thread of whoever orders. Must be set before anybody may.
  void on_order(std::function<void()> action) { on_order_ = std::move(action); }
  // Sets clocks by a new budget, and by what the agents have told since. Asks the engine for nothing, and waits only
  // for the part of a cycle that does not. Returns whether more is to be done soon, once meters have shown what was
  // done.
  bool adjust(Seconds now);
  [[nodiscard]] ClusterRunStatus status() const;

  // What was decided in the last cycle, in words, one line for each job.
  [[nodiscard]] const std::vector<std::string>& decided() const { return decided_; }

 private:
  // From when a job was told to stop, or put back, until it reports again.
  struct Pause {
    Seconds since;             // of what follows: when it was told or, once it was seen to wait, when it could start
    double iteration = 0.0;    // that it had done
    Seconds stopping{0.0};     // what it took to be seen to wait
    bool has_stopped = false;  // it was
    bool goes_on = false;      // it has given nodes back instead
  };
  struct Job {
    EngineJob seen;
    ElasticOption option;
    JobRecord record;
    std::optional<Transition> wanted;
    int index = -1;         // in the scheduler; -1: it is left alone
    bool misfit = false;    // it found no place among the scheduler's jobs where it runs
    bool is_odd = false;    // the engine shows it, but not so that it can be read; what was seen before is kept
    bool started = false;   // start() was called for this transition
    Seconds no_room{0};     // when its target was last seen taken
    Seconds unattended{0};  // since then, in cycles in which it had no turn
    Seconds not_before{0};
    std::optional<Seconds> settled_at;  // by the scheduler's clock, until it is known whether that was a success
    std::string why;
    // Since it started:
    Seconds step;
    int reports = 0;
    bool learned = false;  // what it costs with these GPUs at this clock
    std::optional<Pause> pause;
    std::optional<Seconds> leaving;  // when it was decided that it gives up its GPUs, until the engine shows it without
    std::optional<Seconds> taking;   // when it was decided that it gets GPUs that were in use, until it can be started
    std::optional<Seconds> asked;    // by this process, when it was first asked to stop
    ShrinkRecord shrink;
    int takes_refused = 0;  // by the engine, of the nodes that it gives back

    [[nodiscard]] bool has_reported() const { return reports > 0 || record.iteration > 0.0 || record.iterations > 0.0; }

    [[nodiscard]] double iterations() const { return record.iterations > 0.0 ? record.iterations : option.iterations; }
  };
  struct Pipeline {
    EngineJob seen;  // as it runs
    ElasticOption option;
    JobPace pace;               // the last one
    int index = -1;             // in the scheduler; -1: it is left alone
    std::int64_t frontier = 0;  // version that the scheduler knows, with so many GPUs
    int gpus = 0;
    double done = 0.0;  // iterations, by the frontier before
    int asked = -1;     // speed
    std::string why;
  };
  void settle(int job) override;
  void stopped(int job) override;
  void moves(int /*job*/) override {}
  void started(int job, bool resumes) override;
  void changed_speed(int job) override;
  void changed_partner(int /*job*/) override {}
  void emptied(int /*node*/) override {}

  // Before a decision.
  void begin();
  void read_jobs(Seconds now);
  void note_start(Job& job, Seconds now);
  void forget_start(Job& job, Seconds now);
  [[nodiscard]] bool has_failed_start(const Job& job) const;
  [[nodiscard]] std::string how_gone(const Job& job) const;
  void resume_nodes(Seconds now);
  void forgive(Job& job);
  void end(std::int64_t id, const std::string& how);
  struct TakenReport {
    ElasticReport report;
    bool stop = false;  // what it was answered, or one before it since the last cycle
  };
  void take_reports(Seconds now);
  bool take_order();
  void take_report(Job& job, const TakenReport& taken, Seconds now);
  bool learn(Job& job);
  static void pauses(Job& job, Seconds now);
  static void waits(Job& job, Seconds now, bool could_start);
  void goes_on(Job& job, const ElasticReport& told, Seconds now);
  void note_left(Job& job, Seconds now);
  void count_lost(Job& job, ChangePart part, const ElasticReport& told, Seconds all);
  const ChangeTime& note_change(const Job& job, ChangePart part, Seconds took);
  [[nodiscard]] ChangeTime change_time(const std::string& kind, ChangePart part) const;
  void set_costs(ClusterJobKind& kind) const;
  bool let_go(const JobRecord& record);
  void find_others();
  void adopt(Seconds now);
  bool adopt(Job& job, const GpuShape& shape, int speed);
  // The budget that counts, the lowest of those ahead among them, and since when it is ordered.
  struct Budget {
    Watts power;
    Seconds since;
  };
  [[nodiscard]] Watts ordered_at(Seconds time) const;
  [[nodiscard]] Budget budget_at(Seconds now) const;
  void look_ahead(Seconds now);
  void set_limit(Seconds now);
  int kind_of(const ElasticOption& option);
  void note_measured(int kind);
  int add_job(const Job& job);
  void leave_alone(Job& job, const std::string& why);
  [[nodiscard]] bool is_beside_others(const Job& job) const;
  [[nodiscard]] bool is_eligible(const Job& job) const;
  [[nodiscard]] bool is_rigid(const Job& job) const { return job.record.failures >= options_.tries; }
  [[nodiscard]] std::string obstacle(const Job& job);
  [[nodiscard]] bool stopped_for_us(const Job& job) const;
  [[nodiscard]] std::optional<std::vector<int>> indices_of(const GpuShape& shape) const;

  // The decision, and what follows.
  void decide(Seconds now);
  [[nodiscard]] GpuShape target_of(const Job& job) const;
  void act(Seconds now);
  void step(Job& job, Seconds now);
  void settled(Job& job);
  void failed(Job& job, Seconds now, const std::string& why);
  bool try_to(const std::string& what, const std::function<void()>& act);
  bool try_to(const char* what, const EngineJob& seen, const std::function<void()>& act);
  void set_held(Job& job, bool held);
  void hold(Job& job);
  bool release(Job& job);
  [[nodiscard]] int used_on(const std::string& node) const;
  [[nodiscard]] bool has_room(const GpuShape& target) const;
  [[nodiscard]] Watts power_on(const Job& job, int gpus) const;
  [[nodiscard]] Watts power_on(const Job& job, int gpus, int speed) const;
  [[nodiscard]] Watts drawn_by(const Job& job) const;
  [[nodiscard]] bool may_be_metered(const Job& job) const;
  void publish(Seconds now);
  [[nodiscard]] ClusterJobStatus status_of(const Job& job) const;

  // Nodes, and their power (controller_nodes.cpp).
  void leave_out_other_nodes(EngineView& view) const;
  [[nodiscard]] bool is_elsewhere(const EngineJob& seen) const;
  [[nodiscard]] std::string unlike_partition(const EngineJob& seen) const;
  void set_nodes(Seconds now);
  void note_wake(const EngineNode& node, Seconds now);
  void set_wake();
  void switch_nodes(Seconds now);
  void switch_to(bool on, const std::vector<std::string>& nodes, const std::string& why, Seconds now);
  [[nodiscard]] bool is_awaited(Seconds now) const;
  [[nodiscard]] bool is_awake(const GpuShape& target) const;
  [[nodiscard]] bool is_dark(const EngineNode& node) const;
  [[nodiscard]] int idle_gpus() const;
  void show_wake(const EngineNode& node, ClusterNodeStatus& shown) const;

  // Jobs that give nodes back (controller_shrinks.cpp).
  [[nodiscard]] static bool may_shrink(const Job& job);
  [[nodiscard]] bool shrinks_to_target(const Job& job) const;
  [[nodiscard]] static bool goes_on_with_target(const Job& job);
  void prefer_nodes();
  void ask_to_keep(Job& job, Seconds now);
  void take_word(Job& job, const ElasticReport& told, Seconds now);
  void take_nodes(Job& job, Seconds now);
  void check_shrink(Job& job, Seconds now);
  void refuse_shrink(Job& job, Seconds now, int until, const std::string& why);
  void has_shrunk(Job& job);
  void undo_shrink(Job& job, Seconds now);
  void goes_on_shrunk(Job& job, const ElasticReport& told, Seconds now);

  // Clocks and watts (controller_clocks.cpp).
  [[nodiscard]] std::vector<ClockedJob> clocked_jobs() const;
  [[nodiscard]] const ClockedPower* clocked_power(const Job& job) const;  // null where nobody keeps its clocks
  void keep_clocks();
  [[nodiscard]] bool is_to_meter(const Job& job) const;
  void meter(std::int64_t id, int index);
  void note_cause(std::string words);
  void note_speeds(Seconds now, const std::string& cause);
  void note_decision(ClusterDecision what);
  [[nodiscard]] Watts planned_power() const;
  [[nodiscard]] Watts drawn_by_other(const EngineJob& job);
  void show_power(const Job& job, ClusterJobStatus& shown) const;
  void show_agent(ClusterNodeStatus& shown) const;

  // Pipelines (controller_pipelines.cpp).
  void follow_pipelines(const std::map<std::int64_t, ElasticOption>& options);
  void adopt(Pipeline& job, const JobPace& pace);
  void drop(Pipeline& job, bool goes_on);
  void take_report(Pipeline& job, const ElasticReport& told);
  [[nodiscard]] bool is_paced(std::int64_t id) const;
  void add_clocked(std::vector<ClockedJob>& all) const;
  void keep_paces();
  void note_pipeline_speeds(const std::set<int>& speeds, Seconds now, const std::string& cause);
  [[nodiscard]] ClusterJobStatus status_of(const Pipeline& job) const;

  ClusterEngine& engine_;
  ControllerStore& store_;
  ControllerOptions options_;
  Log log_;
  std::optional<Scheduler> scheduler_;
  Seconds begun_;
  std::vector<std::string> node_names_;  // by the scheduler's index, rising
  std::map<std::string, int> node_index_;
  std::map<std::string, int> kinds_;  // by ElasticOption without iterations
  std::set<int> measured_;            // kinds of which it was measured what they cost
  std::map<std::int64_t, Job> jobs_;
  std::map<std::int64_t, Pipeline> pipelines_;
  std::map<std::int64_t, JobRecord> kept_;  // of jobs that are not, or not yet, among jobs_
  std::map<std::int64_t, Transition> kept_wanted_;
  std::map<std::int64_t, ShrinkRecord> kept_shrinks_;
  std::set<std::string> odd_;           // what could not be read, and has been logged
  std::set<std::int64_t> refused_;      // jobs with an option that is wrong
  std::set<std::string> others_on_;     // nodes with jobs that are not elastic, or not movable
  std::map<std::string, int> used_on_;  // GPUs that any job has
  std::int64_t acted_ = 0;              // the job that was the last one's turn
  Seconds acted_at_{0};
  Watts drawn_;                     // at most, by the scheduler's jobs as they run now or have been released
  std::set<std::int64_t> changed_;  // whose record is to be kept
  std::optional<PowerOrder> order_;
  Seconds ahead_{0};  // until when lower budgets count already
  std::map<std::pair<std::string, ChangePart>, ChangeTime> change_times_;
  Watts others_power_;
  std::optional<ClockKeeper> keeper_;
  struct OthersPeak {
    Nanoseconds begin = 0;
    Watts peak;
    Nanoseconds peak_at = 0;
  };
  std::map<std::int64_t, OthersPeak> others_peaks_;  // by job
  std::optional<Seconds> failed_at_;                 // when the engine last did not answer
  std::map<std::string, Seconds> resume_after_;      // by node: when it may be tried again
  // By node and whether on: when it may be ordered again.
  std::map<std::pair<std::string, bool>, Seconds> switch_after_;
  std::map<std::string, NodeRecord> node_records_;  // by node
  std::set<std::string> sleepers_;                  // nodes that are not on, and may be
  std::optional<Seconds> looked_at_;                // when the last cycle was
  bool was_away_ = true;                            // the engine, since the last cycle but one, for all we know
  std::set<int> other_speeds_;                      // jobs of the scheduler whose speed was changed
  EngineView view_;                                 // the last one
  std::vector<std::string> causes_;                 // what has happened since the last decision
  std::vector<std::string> decided_;
  std::deque<ClusterDecision> decisions_;  // the newest first

  std::function<void()> on_order_;
  std::mutex work_;  // guards all that is above; open while the engine is asked for something

  mutable std::mutex mutex_;                  // guards what follows
  std::map<std::int64_t, TakenReport> told_;  // the last of each job
  std::vector<BudgetOrder> new_orders_;
  std::map<std::int64_t, std::int64_t> users_;  // by job
  struct Stop {
    std::vector<std::string> keeps{};  // nodes with which it is to go on; none: it is to end
    int gpus = 0;                      // of these
  };
  std::map<std::int64_t, Stop> stops_;  // jobs that are to be told to stop
  bool has_looked_ = false;
  ClusterRunStatus status_;
};

}  // namespace flyball
