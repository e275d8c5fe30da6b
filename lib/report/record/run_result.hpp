#pragma once

#include "base/json.hpp"
#include "report/record/run_record.hpp"

#include <functional>

namespace trainctl::report {

/// The settings that advice may change, filled in from the experiment and the machine.
struct AdviceSettings {
  int cpu_cores = 0;  // 0: unknown
  std::int64_t checkpoint_every = 1;
  std::int64_t validate_every = 1;
  std::string cache_mode;
  std::vector<std::string> cache_modes;  // supported by this version
  std::optional<std::int64_t> checkpoint_every_steps = {};
  std::optional<double> checkpoint_every_s = {};
  bool checkpoint_async = true;
  bool checkpoint_on_best = false;
  std::int64_t log_every_steps = 50;
  bool detect_anomaly = false;
  std::optional<bool> cuda_graphs = {};    // absent: auto
  std::optional<bool> pin_memory = {};     // absent: unknown
  std::optional<int> read_ahead = {};      // absent: auto
  std::string precision = {};              // "32-true"; empty: unknown
  bool threads_probed = false;             // trainer.num_threads is auto
  bool native_bf16 = true;                 // the CPU has bf16 instructions
  std::optional<double> cache_share = {};  // memory limit of caches as a fraction; absent: unknown
  std::string spin_variable = {};          // keeps idle threads spinning, "OMP_WAIT_POLICY=active"
  /// Returns whether the experiment would accept this additional override; empty: unknown.
  std::function<bool(const std::string& setting)> accepts = {};
};

/// The command line of the run, from which the next command is suggested.
struct Command {
  std::string program = "trainctl";
  std::string config = "CONFIG";
  std::vector<std::string> overrides;
  std::string out;                      // --out; empty: default
  std::vector<std::string> node_flags;  // --nnodes, --node-rank and so on, only for `run`
  int nodes = 1;                        // of the run; other verbs use this machine only
};

/// One attempt of a run with trainer.on_divergence.
struct Attempt {
  std::vector<std::string> overrides;  // from trainer.on_divergence; empty: as configured
  std::string folder;                  // subfolder with its files; empty: the last attempt
  std::string verdict;
  int exit_code = 0;
  std::string message;
};

/// Whether the lowest or the highest value of the monitor is best.
struct BestMode {
  std::string name = {};  // "max"; empty: unknown
  bool inferred = false;  // from the name of the monitor
};

/// A saved training state.
struct SavedState {
  std::string path;  // relative to the run folder if it is inside
  std::int64_t step = 0;
  bool verified = false;  // it was read back after the save
};

/// How a run ended, in addition to its events; study::run_experiment() fills it in from the
/// supervisor's outcome.
struct RunResult {
  std::string verdict = "ok";  // ok, failed, diverged, stopped, hang, interrupted, terminated
  int exit_code = 0;
  std::string message;     // one sentence; empty for ok
  std::string started_at;  // UTC, ISO 8601
  double wall_s = 0;       // sum of all starts, each from process start to the last exit
  int restarts = 0;        // by this command
  std::optional<SavedState> resumed_from;  // by the last start; absent: it began at step 0
  std::optional<SavedState> checkpoint;    // newest checkpoint that a run can resume from
  std::vector<Attempt> attempts;           // for trainer.on_divergence, this attempt last
  AdviceSettings levers;
  std::optional<events::RankFailure> first_failure;
  std::string run_dir;
  std::string profile;  // its path and the most expensive operator; empty: no profile
  Command command;
  bool trains = true;          // false: it saves no weights
  std::string resume_command;  // empty: there is nothing to resume
  BestMode best_mode = {};
};

/// Returns result.json, schema "trainctl.result/2". It is complete even for a run that never
/// trained: unknown values are null or empty, and no key is missing.
Json result_document(const RunRecord& record, const RunResult& ending);

/// Returns the rank that failed first, as in result.json; null if no rank failed.
Json failure_document(const std::optional<events::RankFailure>& failure);

}  // namespace trainctl::report
