#pragma once

#include "report/html/page.hpp"
#include "report/record/run_files.hpp"

namespace trainctl::report {

/// One of the samples with the worst predictions.
struct WorstSample {
  std::string name;                   // a path, or the sample's number
  std::string label;                  // its class
  std::string predicted;              // the class that the model predicts
  std::optional<double> probability;  // that the model assigns to the label
  std::optional<double> loss;         // cross entropy
  std::string png;                    // the bytes of the picture file
};

/// Data for a run page that is not in the files of the run.
struct RunPageExtras {
  std::vector<WorstSample> worst;
  std::string worst_source;  // "predictions.csv, split val"
  std::vector<std::string> class_names;
};

/// Returns report.html of a run: headline, verdict, curves, time, utilization, confusion, ranks,
/// config, manifest. Unreported values are left out; missing or damaged files are listed.
std::string run_page(const RunFiles& run, const RunPageExtras& extras = {});

/// Returns how a run ended, in words; "running or killed" for a run without an end.
Status status_of(const RunFiles& run);

}  // namespace trainctl::report
