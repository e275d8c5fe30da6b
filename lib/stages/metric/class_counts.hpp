#pragma once

#include "spec/metric/average.hpp"
#include "stage/stages.hpp"

#include <memory>
#include <string>

namespace trainctl::stages {

enum class Score { precision, recall, f1 };

/// A score from three counts of every class: rows of it, rows called so, and rows that are both.
/// Exact over batches and ranks. Where nothing was called so, or none is of it, a class scores 0,
/// as sklearn has it. Of numbers each column is a class, which an answer that is yes is of, and
/// none is left out of the mean. Throws Error(config) where `average` is binary and there are not
/// two classes, and for a threshold with classes.
std::unique_ptr<stage::Metric> make_class_metric(std::string name, Score score,
                                                 const spec::metric::Averaged& options,
                                                 const stage::MetricContext& context);

}  // namespace trainctl::stages
