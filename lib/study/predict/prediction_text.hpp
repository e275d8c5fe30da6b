#pragma once

#include "study/predict/predictions.hpp"

#include <string>

namespace trainctl::study {

/// What stands before the first row: the header of CSV or NPY, nothing of JSON lines.
std::string head_of(const PredictionPlan& plan, const events::Evaluated& told);

/// Appends a sample in the plan's format. Numbers are written so that they read back as the same
/// float; those that are not finite as nan, inf and -inf, in JSON as text.
void append_row(std::string& text, const PredictionPlan& plan, const events::Evaluated& told,
                const SampleRow& row);

/// Version 1.0 of numpy's format: float32 [samples, outputs], or int64 [samples] of classes. Its
/// length is a multiple of 64.
std::string npy_header(const PredictionPlan& plan, std::int64_t samples, std::int64_t outputs);

}  // namespace trainctl::study
