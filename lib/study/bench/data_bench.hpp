#pragma once

#include "data/core/pipeline.hpp"
#include "data/loader/loading_plan.hpp"
#include "data/loader/measurements.hpp"
#include "report/compare/data_bench.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/run/run.hpp"

#include <string>
#include <vector>

namespace trainctl::study {

/// How a loader is measured without a training that waits for it.
struct DataBenchOptions {
  std::string workers;  // "0,2,auto"; empty: loader.num_workers
  int repeats = 5;
  data::MeasureLength length;
};

/// What was measured, and the damaged samples that the last measurement met.
struct DataBenchResult {
  report::DataBench bench;
  std::vector<data::SkippedSample> skipped;
};

/// The pipeline of dataset.train with its cache, as a run loads it.
data::Pipeline open_train_pipeline(const spec::Experiment& experiment);

/// Returns the threads and batches ahead where nothing trains and batches are taken as fast as they
/// come: as `requested`, and measured by a probe where that is `auto`.
data::LoadingChoice choose_for_reading(const spec::Loader& requested,
                                       const data::Pipeline& pipeline,
                                       const data::LoaderOptions& options);

/// Measures the loader of dataset.train with each number of threads, in rounds, each time in a
/// fresh process. Throws Error(config) where `workers` is no list of numbers.
DataBenchResult bench_loader(const spec::Experiment& experiment, const DataBenchOptions& options,
                             const PrintLine& print);

}  // namespace trainctl::study
