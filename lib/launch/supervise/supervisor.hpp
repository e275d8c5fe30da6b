#pragma once

#include "base/clock.hpp"
#include "events/records.hpp"

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::launch {

/// Returns the default time, in seconds, that ranks get to save and exit after a stop signal: half
/// a minute, or three steps (one is running, validation may follow) plus twice the longest save so
/// far if that is more. `step_s` is the time between two checks for the signal, which includes all
/// batches of a gradient accumulation and steps between which GPU ranks do not synchronize.
double default_stop_grace(double step_s, double save_s);

/// Tracks why a job ends, and until when its ranks may run. It has no side effects; the caller
/// passes all times, in seconds of a steady clock.
class ShutdownController {
 public:
  /// The response of the supervisor to a stop signal: end the ranks, do nothing, or kill them.
  enum class Action { stop, none, kill };

  /// `grace_s` is the time the other ranks get after a failure, when waiting for them is of no use.
  explicit ShutdownController(double grace_s) : grace_s_(grace_s) {}

  /// Handles a stop signal of the supervisor. The first one stops the job within `stop_grace_s`; a
  /// second one kills, and so does one while the job ends because of a failure. The same signal
  /// within 0.2 s counts as a repetition: `timeout` and closed terminals send theirs twice.
  Action handle_signal(int signal, double now, double stop_grace_s);
  /// Stops the job because a rank has exited on a stop signal. A later signal of the
  /// supervisor counts as its first.
  void begin_stop(int signal, double now, double stop_grace_s);
  /// Shortens the time, since a rank has failed or has exited without a checkpoint.
  void shorten(double now);
  /// Extends the time, since a rank made progress with saving at `progress_at`, unless shorten()
  /// was called. The limit is ten minutes in total, or ten times the grace period if that is more.
  void extend(double progress_at);

  [[nodiscard]] bool has_begun() const { return kill_at_.has_value(); }
  [[nodiscard]] bool is_shortened() const { return is_shortened_; }
  [[nodiscard]] bool is_due(double now) const { return kill_at_ && now >= *kill_at_; }
  /// Returns the stop signal; empty if a failure ends the job.
  [[nodiscard]] std::optional<int> signal() const { return signal_; }

 private:
  void begin(int signal, double now, double stop_grace_s);

  double grace_s_;
  double stop_grace_s_ = 0;
  double began_at_ = 0;
  std::optional<int> signal_;
  std::optional<int> supervisor_signal_;  // received by the supervisor itself
  double supervisor_signal_at_ = 0;
  std::optional<double> kill_at_;
  bool is_shortened_ = false;
};

/// What OpenMP threads do between two parallel regions. `spin` polls for a fraction of a
/// millisecond before sleeping, which costs far more than it saves if other processes need the
/// cores (docs/adr/0012).
enum class OmpWaitPolicy { sleep, spin };

class Coordinator;

/// The position of this supervisor's ranks in a job of several nodes.
struct NodePlacement {
  int nodes = 1;  // each with the same number of ranks
  int node = 0;   // 0: the coordinator, which serves the store and decides about the end
  // On a machine where other supervisors may have started ranks too:
  int local_rank = 0;        // local rank of the first rank
  int local_world_size = 0;  // 0: only the ranks of this node
};

/// What to start: every rank runs the same program with a different environment. Each worker gets,
/// in addition to the names in process/child.hpp and unless the user has set them,
/// OMP_WAIT_POLICY or GOMP_SPINCOUNT, KINETO_LOG_LEVEL=5, CUBLAS_WORKSPACE_CONFIG=:4096:8 and
/// CUDA_DEVICE_ORDER=PCI_BUS_ID.
struct LaunchSpec {
  std::vector<std::string> argv;  // argv[0] is the path of the executable
  int world_size = 1;             // of the whole job
  NodePlacement placement = {};
  Coordinator* coordinator = nullptr;  // on node 0: the other nodes; must outlive the call
  std::map<std::string, std::string>
      environment;  // added; the user's value is kept for names in `user_variables`
  std::vector<std::string> user_variables;  // e.g. OMP_WAIT_POLICY
  OmpWaitPolicy omp_wait_policy = OmpWaitPolicy::sleep;
  std::vector<std::vector<int>> cores;    // dedicated cores of each local rank; empty: none
  std::vector<std::string> library_path;  // folders to put before the user's LD_LIBRARY_PATH
  std::filesystem::path log_folder;       // for rank_N.log, rank_N.error.json, rank_N.stacks.txt
  double init_timeout_s = 300;            // until every rank has sent Hello
  double grace_s = 4;                     // from SIGTERM to SIGKILL after a failure
  std::optional<double> stop_grace_s;     // after a stop signal; default: grace_s before the first
                                          // step, then default_stop_grace()
  double batches_to_stop = 1;  // maximum number of batches between two checks for a stop signal
  std::optional<double> hang_timeout_s;  // limit of a step; absent: see HeartbeatMonitor

  [[nodiscard]] int ranks_here() const { return world_size / placement.nodes; }
  [[nodiscard]] int first_rank() const { return placement.node * ranks_here(); }
};

/// The result of a job. `exit_code` is the documented one; a worker's code or signal is recorded
/// but never passed through.
struct Outcome {
  int exit_code = 0;
  std::string verdict;  // ok, failed, diverged, hang, stopped, interrupted, terminated
  std::string message;  // one line: rank, host, step and cause, or what ended the job; empty for ok
  std::optional<events::RankFailure> first_failure;
  std::vector<events::RankFailure> consequences;
  std::optional<int> stopped_by_signal;  // received by the supervisor; SIGINT or SIGTERM if only a
                                         // worker received one
};

/// Called on the supervisor's thread for each event of each rank, in order of arrival.
using EventHandler = std::function<void(int rank, const events::Event& event)>;
/// Called a few times per second, so that a progress bar moves even without events.
using TickHandler = std::function<void()>;

/// Returns "SIGKILL", or "signal 61" for a signal without a name.
std::string signal_name(int signal);

/// Starts the workers, forwards their events, and returns when no process of the job is left.
/// SIGINT, SIGTERM, SIGUSR1, SIGUSR2 (and SIGHUP, unless ignored as under nohup) are blocked in
/// this thread during the call and stop the job: workers get SIGTERM and `stop_grace_s` to save and
/// exit, longer while saving makes progress; a second signal kills them (see ShutdownController). A
/// stop signal that reaches only a worker also stops the job; the worker reports it by its exit
/// code: 75 if a checkpoint was saved, 130 or 143 otherwise. Other threads of the process must
/// block these signals too and must not start child processes during the call, since processes of
/// the job are found by parentage. A worker that ends normally sends Finished and exits with 0.
/// Anything else is a failure of the job, and so are an invalid line on its event pipe and a
/// hanging step (see HeartbeatMonitor), for which the stacks of all ranks are written first; the
/// other ranks then get `grace_s`. An exception of a handler ends the job and is passed on. Throws
/// Error(resource) if a worker cannot be started; no worker is left then. With `spec.coordinator`
/// the ranks of other nodes belong to the job too: the handler gets their events, and their
/// failures, hangs and the loss of their node end the job. A node that has not joined within
/// `init_timeout_s` is named.
Outcome supervise(const LaunchSpec& spec, const EventHandler& on_event, const TickHandler& on_tick,
                  const Clock& clock);

}  // namespace trainctl::launch
