#pragma once

#include "report/html/page.hpp"
#include "report/record/run_files.hpp"

namespace trainctl::report {

/// A sample that the model is most wrong about.
struct WorstSample {
  std::string name;                   // a path, or its number
  std::string label;                  // its class
  std::string predicted;              // that of the model
  std::optional<double> probability;  // that the model gave to the label
  std::optional<double> loss;         // cross entropy
  std::string png;                    // the picture, a file's bytes
};

/// What is not in the files of a run.
struct RunPageExtras {
  std::vector<WorstSample> worst;
  std::string worst_source;  // "predictions.csv, split val"
  std::vector<std::string> class_names;
};

/// report.html of a run: headline, verdict, curves, time, utilization, confusion, ranks, config,
/// manifest. What the run did not tell is left out; what is missing or damaged is said.
std::string run_page(const RunFiles& run, const RunPageExtras& extras = {});

/// How a run ended, in words; "running or killed" of one without an end.
Status status_of(const RunFiles& run);

}  // namespace trainctl::report
