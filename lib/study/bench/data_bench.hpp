#pragma once

#include "data/loader/loading_plan.hpp"
#include "data/loader/measurements.hpp"
#include "report/compare/data_bench.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/run/run.hpp"

#include <string>
#include <vector>

namespace trainctl::study {

/// How to measure a loader without a training loop that waits for it.
struct DataBenchOptions {
  std::string workers;  // "0,2,auto"; empty: loader.num_workers
  int repeats = 5;
  data::MeasureLength length;
};

/// The measurements, and the damaged samples that the last measurement found.
struct DataBenchResult {
  report::DataBench bench;
  std::vector<data::SkippedSample> skipped;
};

/// Opens the pipeline of dataset.train with its cache, as a run does.
data::Pipeline open_train_pipeline(const spec::Experiment& experiment);

/// Returns the number of threads and prefetched batches for reading as fast as possible without
/// training: the `requested` values, or those that a probe measures for `auto`.
data::LoadingChoice choose_for_reading(const spec::Loader& requested,
                                       const data::Pipeline& pipeline,
                                       const data::LoaderOptions& options);

/// Measures the loader of dataset.train with each number of threads, in rounds, each time in a new
/// process. Throws Error(config) when `workers` is not a list of numbers.
DataBenchResult bench_loader(const spec::Experiment& experiment, const DataBenchOptions& options,
                             const PrintLine& print);

}  // namespace trainctl::study
