#pragma once

#include "base/clock.hpp"
#include "base/json.hpp"
#include "report/record/run_record.hpp"
#include "report/record/run_result.hpp"
#include "report/sinks/sink.hpp"
#include "spec/experiment/job.hpp"
#include "spec/load.hpp"
#include "study/folder/run_folder.hpp"
#include "study/nodes/node_plan.hpp"
#include "study/preflight/experiment_checks.hpp"
#include "study/resume/resume.hpp"
#include "weights/import.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// One call of the program for an experiment: the fields that its run requests share.
struct Invocation {
  fs::path config_file;
  std::vector<std::string> overrides;  // as typed, for the command that is suggested at the end
  std::vector<std::string> argv;       // for the manifest
  fs::path executable;                 // also started as `trainctl worker`
  std::string version;
  int verbosity = 0;  // number of -v flags, passed on to the workers
};

/// One run as requested on the command line.
struct RunRequest : Invocation {
  spec::Loaded loaded;
  TrainingSamples samples;  // read from the data headers when the experiment was loaded
  FolderRequest folder;
  spec::Job job;                        // training by default
  weights::Selection weights;           // which weights of the job's file are used
  std::optional<ResumeRequest> resume;  // for training: how to resume an existing run
  std::string batch_size_why;     // set if loader.batch_size was auto and trials chose the size
  std::optional<NodePlan> nodes;  // placement among several nodes; absent: this machine only
  std::vector<std::string> node_flags;  // as typed, for the command that is suggested at the end
  bool any_address = false;    // --allow-public-address: node 0 may listen on a public address
  ConnectStore connect_store;  // connects to torchrun's store
};

/// The result of run_experiment().
struct RunOutcome {
  fs::path folder;
  report::RunRecord record;
  report::RunResult ending;  // exit code, verdict, first failure
  Json result;               // result.json of a run or of an evaluation
  std::string write_error;   // why result.json could not be written; empty if it was
  std::string complete;      // the finished run's value to raise; no worker was started
};

/// Loads and checks the experiment as a run in a new folder; `added` overrides come after the typed
/// ones. Throws as spec::load_experiment() does.
RunRequest make_request(const Invocation& invocation, const std::vector<std::string>& added,
                        config::Diagnostics& diagnostics, Purpose purpose = Purpose::training);
/// Makes the same request from an experiment that is already loaded.
RunRequest make_request(const Invocation& invocation, spec::Loaded loaded);

/// Prints a line for people; `line` has no newline.
using PrintLine = std::function<void(const std::string& line)>;

using Sinks = std::vector<std::unique_ptr<report::Sink>>;
/// Makes the listeners of a run after its folder was created.
using MakeSinks = std::function<Sinks(const fs::path& run_dir)>;

/// Returns the metrics that the run reports, in column order: train/loss, the training metrics,
/// val/loss, the validation metrics. The validation columns may be missing in some epochs.
std::vector<std::string> metric_columns(const spec::Experiment& experiment);

/// The entry point of every run: creates the run folder, starts and supervises the workers, passes
/// their events to the sinks, and writes result.json however the run ends. A resumed run appends to
/// the files of its folder. A run that fails or hangs is restarted from its newest checkpoint, at
/// most `trainer.max_restarts` times. A finished run is not started again: the outcome is that of
/// its last start, and `complete` names the value to raise.
///
/// With request.nodes this process is node 0; the other nodes call join_run(). Throws when the run
/// folder cannot be created or has nothing to resume from, and on node 0 also when it cannot listen
/// for the other nodes; Error(config) when trainer.num_nodes asks for several nodes but the request
/// does not say how they meet. Later failures are reported in `ending`.
RunOutcome run_experiment(const RunRequest& request, const MakeSinks& make_sinks,
                          const Clock& clock);

}  // namespace trainctl::study
