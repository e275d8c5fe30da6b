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

/// What threads of a parallel region do until the next one begins. spin: look for it for a fraction
/// of a millisecond before they sleep; where others need the cores, that costs far more than it
/// saves (docs/adr/0012).
enum class Waiting { sleep, spin };

class Head;

/// Where this supervisor's ranks stand in a job of several nodes.
struct NodePlace {
  int nodes = 1;  // each with the same number of ranks
  int node = 0;   // 0: the head, whose supervisor serves the store and judges the end
  // Of the machine, where other supervisors may have started ranks beside these:
  int local_rank = 0;        // of the first rank
  int local_world_size = 0;  // 0: the ranks of this node alone
};

/// What to start: the same program for every rank, told apart by environment. Set for every worker
/// beside the names in launch/environment.hpp, unless the user has set them: OMP_WAIT_POLICY or
/// GOMP_SPINCOUNT, KINETO_LOG_LEVEL=5 and CUBLAS_WORKSPACE_CONFIG=:4096:8.
struct LaunchSpec {
  std::vector<std::string> argv;  // argv[0] is the executable's path
  int world_size = 1;             // of the whole job
  NodePlace place = {};
  Head* head = nullptr;  // of several nodes: the others, as node 0 sees them; outlives it
  std::map<std::string, std::string>
      environment;  // added; a value the user has set wins where `keep_users` names it
  std::vector<std::string> keep_users;  // e.g. OMP_WAIT_POLICY
  Waiting waiting = Waiting::sleep;
  std::vector<std::vector<int>> cores;    // of its own for each rank here; empty: any
  std::vector<std::string> library_path;  // folders put before the user's LD_LIBRARY_PATH
  std::filesystem::path log_folder;       // rank_N.log, rank_N.error.json, rank_N.stacks.txt
  double init_timeout_s = 300;            // until every rank has said Hello
  double grace_s = 4;                     // SIGTERM to SIGKILL, once a rank has failed
  std::optional<double> stop_grace_s;     // the same after a stop signal; absent: that of a failure
                                          // before the first step, then stop_allowance()
  double batches_to_stop = 1;             // from a stop signal till ranks look at it, at most
  std::optional<double> hang_timeout_s;   // without a sign of life; absent: see Pulse

  /// Ranks that are started here.
  [[nodiscard]] int ranks_here() const { return world_size / place.nodes; }
  [[nodiscard]] int first_rank() const { return place.node * ranks_here(); }
};

struct RankFailure {
  int rank = 0;
  std::string host;
  pid_t pid = 0;
  std::optional<int> signal;     // set where a signal ended it
  std::string signal_name;       // "SIGKILL"
  std::optional<int> exit_code;  // set where it exited by itself
  std::int64_t step = 0;         // from the shared page: right even after SIGKILL
  std::string phase;
  std::string collective;  // the last exchange that it was in, from the shared page; empty: none
  int kind = 7;            // ErrorKind as its exit code: the worker's own word, or 7
  std::string message;     // the worker's own sentence, or ours
  std::string log_tail;    // last lines of logs/rank_N.log
};

/// How the job ended. `exit_code` is the contract's; a worker's code or signal is recorded, never
/// passed through.
struct Outcome {
  int exit_code = 0;
  std::string verdict;  // ok, failed, diverged, hang, stopped, interrupted, terminated
  std::string message;  // one line for people: rank, host, step and cause, or what ended the job;
                        // empty for ok
  std::optional<RankFailure> first_failure;
  std::vector<RankFailure> consequences;
  std::optional<int> stopped_by_signal;  // that the supervisor got; SIGINT or SIGTERM where only a
                                         // worker got one
};

/// Called on the supervisor's thread for every event of every rank, in order of arrival.
using EventHandler = std::function<void(int rank, const events::Event& event)>;
/// Called a few times a second, so that a progress bar moves while no event comes.
using TickHandler = std::function<void()>;

/// "SIGKILL"; "signal 61" for one without a name.
std::string signal_name(int signal);

/// Starts the workers, forwards their events, and returns when no process of the job is left.
/// SIGINT, SIGTERM, SIGUSR1, SIGUSR2 (and SIGHUP, unless ignored as under nohup) are blocked in
/// this thread while it runs and stop the job: workers get SIGTERM, and `stop_grace_s` to save and
/// end, longer while they get on with saving; a second signal kills them at once (see Ending). So
/// does a stop signal that reaches only a worker, which tells by its exit code: 75 where a
/// checkpoint was saved, 130 or 143. Other threads of the process must have these signals blocked
/// too, and start no child processes meanwhile: what is left of the job is told by parentage. A
/// worker that ends by itself says Finished and exits with 0; anything else is a failure of the
/// job, and so are a line on its event pipe that is no event and a step that does not end (see
/// Pulse), where the stacks of all ranks are written first; the others then have `grace_s`. What a
/// handler throws ends the job and leaves this function. Throws Error(resource) where a worker
/// could not be started; then none is left. With `spec.head` the ranks of other nodes count as its
/// own: their events go to the handler, their failures, their hangs and the loss of their node end
/// the job; a node that has not come by `init_timeout_s` is named.
Outcome supervise(const LaunchSpec& spec, const EventHandler& on_event, const TickHandler& on_tick,
                  const Clock& clock);

}  // namespace trainctl::launch
