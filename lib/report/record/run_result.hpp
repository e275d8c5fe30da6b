#pragma once

#include "base/json.hpp"
#include "report/record/run_record.hpp"

#include <functional>

namespace trainctl::report {

/// The rank that failed first, as the supervisor saw it.
struct FirstFailure {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::optional<int> signal;
  std::string signal_name;  // "SIGKILL"
  std::optional<int> exit_code;
  std::int64_t step = 0;
  std::string phase;            // "train"
  std::string collective = {};  // the last exchange with other ranks that it was in; empty: none
  std::string message;          // the worker's own sentence; empty where it could not say one
  std::string log_tail;         // last lines of its log
};

/// What advice may turn, beside what the events tell: filled in from the experiment and the
/// machine.
struct Levers {
  int cpu_cores = 0;  // 0: not known
  std::int64_t checkpoint_every = 1;
  std::int64_t validate_every = 1;
  std::string cache_mode;
  std::vector<std::string> cache_modes;  // that this version has
  std::optional<std::int64_t> checkpoint_every_steps = {};
  std::optional<double> checkpoint_every_s = {};
  bool checkpoint_async = true;
  bool checkpoint_on_best = false;
  std::int64_t log_every_steps = 50;
  bool detect_anomaly = false;
  std::optional<bool> cuda_graphs = {};    // absent: auto
  std::optional<bool> pin_memory = {};     // absent: not known
  std::optional<int> read_ahead = {};      // absent: auto
  std::string precision = {};              // "32-true"; empty: not known
  bool threads_probed = false;             // trainer.num_threads is auto
  bool native_bf16 = true;                 // the CPU has instructions for it
  std::optional<double> cache_share = {};  // that caches may take of the memory; absent: not known
  std::string spin_variable = {};  // that keeps idle threads awake, "OMP_WAIT_POLICY=active"
  /// Whether the experiment would be accepted with this override, too; empty: not known.
  std::function<bool(const std::string& setting)> accepts = {};
};

/// The command that was typed, for the one that is proposed next.
struct Command {
  std::string program = "trainctl";
  std::string config = "CONFIG";
  std::vector<std::string> overrides;
  std::string out;                      // --out; empty: as by default
  std::vector<std::string> node_flags;  // --nnodes, --node-rank and the like, for `run` alone
  int nodes = 1;                        // of the run; verbs other than `run` use this machine
};

/// A run that diverged, before it was started again.
struct Attempt {
  std::vector<std::string> overrides;  // of trainer.on_divergence; empty: as configured
  std::string folder;                  // below the run folder: what it left; empty: the last one
  std::string verdict;
  int exit_code = 0;
  std::string message;
};

/// Whether the best value of the monitor is the lowest or the highest.
struct BestMode {
  std::string name = {};  // "max"; empty: not known
  bool inferred = false;  // from the name of the monitor
};

/// The state of a training on the disk.
struct SavedState {
  std::string path;  // below the run folder where it lies there
  std::int64_t step = 0;
  bool verified = false;  // it was read back
};

/// How a run ended, beside what its events tell: filled in by the composition root from the
/// supervisor's outcome.
struct Ending {
  std::string verdict = "ok";  // ok, failed, diverged, stopped, hang, interrupted, terminated
  int exit_code = 0;
  std::string message;                     // one sentence; empty for ok
  std::string started_at;                  // UTC, ISO 8601
  double wall_s = 0;                       // all starts, each from argv to its last process
  int restarts = 0;                        // of this command
  std::optional<SavedState> resumed_from;  // by the last start; absent: it began at the first step
  std::optional<SavedState> checkpoint;    // the newest from which a run can go on
  std::vector<Attempt> attempts;           // of a run with trainer.on_divergence, this one last
  Levers levers;
  std::optional<FirstFailure> first_failure;
  std::string run_dir;
  std::string profile;  // where it is, and the operator that took most; empty: none was made
  Command command;
  bool trains = true;          // else it saves no weights
  std::string resume_command;  // empty: there is nothing to resume
  BestMode best_mode = {};
};

/// result.json, schema "trainctl.result/1". Complete for a run that never came to train, too: what
/// is not known is null or empty, no key is missing.
Json result_document(const RunRecord& record, const Ending& ending);

/// The rank that failed first, as such documents tell it; null where none did.
Json failure_document(const std::optional<FirstFailure>& failure);

}  // namespace trainctl::report
