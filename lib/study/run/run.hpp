#pragma once

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "report/record/run_record.hpp"
#include "report/record/run_result.hpp"
#include "report/sinks/sink.hpp"
#include "spec/experiment/task.hpp"
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

/// A call of the program for an experiment: what the requests of its runs have in common.
struct Invocation {
  fs::path config_file;
  std::vector<std::string> overrides;  // as typed, for the command that is proposed at the end
  std::vector<std::string> argv;       // for the manifest
  fs::path executable;                 // started again as `trainctl worker`
  std::string version;
  int verbosity = 0;  // number of -v, which the workers are given too
};

/// One run as the command line asked for it.
struct RunRequest : Invocation {
  spec::Loaded loaded;
  TrainingSamples samples;  // what the headers said when the experiment was loaded
  FolderRequest folder;
  spec::Task task;                      // training, unless told otherwise
  weights::Selection weights;           // of the task's file of weights
  std::optional<ResumeWish> resume;     // of training: go on with the run of a folder
  std::string batch_size_why;           // where loader.batch_size was auto and trials found it
  std::optional<NodePlan> nodes;        // of several; absent: this machine alone
  std::vector<std::string> node_flags;  // as typed, for the command that is proposed at the end
  bool any_address = false;             // --i-know: the head may listen on a public one
  MakeExchange make_exchange;           // with torchrun's store
};

struct RunOutcome {
  fs::path folder;
  report::RunRecord record;
  report::Ending ending;  // exit code, verdict, first failure
  Json result;            // result.json: of a run, or of an evaluation
  std::string unwritten;  // why result.json could not be written; empty where it was
  std::string complete;   // a finished run was to be resumed: what to raise; nothing was started
};

/// Loads and checks the experiment, with overrides after those that were typed, as a run in a new
/// folder. Throws as spec::load_experiment() does.
RunRequest make_request(const Invocation& invocation, const std::vector<std::string>& added,
                        config::Diagnostics& diagnostics, Purpose purpose = Purpose::training);
/// The same of an experiment that is loaded.
RunRequest make_request(const Invocation& invocation, spec::Loaded loaded);

/// Prints a line for people, without its newline.
using PrintLine = std::function<void(const std::string& line)>;

using Sinks = std::vector<std::unique_ptr<report::Sink>>;
/// Makes the listeners once the run folder exists.
using MakeSinks = std::function<Sinks(const fs::path& run_dir)>;

/// The metrics that the run will tell, in the order of the columns: train/loss, those of training,
/// val/loss, those of validation; the later ones may come in some epochs only.
std::vector<std::string> metric_columns(const spec::Experiment& experiment);

/// The one door through which every run starts: makes the run folder, starts and watches the
/// workers, feeds their events to the sinks, and writes result.json whatever happens after. A run
/// that goes on does so in its folder, whose files grow; one that fails or hangs is started again
/// from its newest checkpoint, `trainer.max_restarts` times. A finished run is not started: the
/// outcome is that of its last start, and `complete` says what to raise. Throws where no run folder
/// could be made, or nothing in it can be gone on from; what goes wrong later is told by the
/// ending. With request.nodes it is the head's: the others take part by join_run(). Throws then
/// also where it cannot listen for them; Error(config) where a training run is to have other nodes
/// and the request does not tell how they meet.
RunOutcome run_experiment(const RunRequest& request, const MakeSinks& make_sinks,
                          const Clock& clock);

}  // namespace trainctl::study
