#pragma once

#include "base/files.hpp"
#include "events/records.hpp"
#include "study/predict/sample_outputs.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainctl::study {

enum class Output { logits, probabilities, classes, prediction };
constexpr std::array<const char*, 4> enum_names(Output) {
  return {"logits", "probabilities", "class", "prediction"};
}

enum class Format { csv, npy, jsonl };
constexpr std::array<const char*, 3> enum_names(Format) { return {"csv", "npy", "jsonl"}; }

/// The file of predictions as the command line asks for it.
struct PredictionWish {
  fs::path file;
  std::vector<std::string> outputs;  // empty: what the loss gives a meaning to
  std::string format;                // empty: by the file's extension
  bool replaces = false;             // a file that is there
};

struct PredictionPlan {
  fs::path file;
  Format format = Format::csv;
  std::vector<Output> outputs;
  Meaning meaning;
  bool replaces = false;                      // a file that is there, or comes to be
  std::vector<std::string> class_names = {};  // of the outputs, each once; empty: their numbers

  [[nodiscard]] bool has(Output output) const;
};

/// Decides what the file will hold. Throws Error(config) for a format or an output that is none, or
/// that says nothing with such a loss, and where the file is there already (also with `replaces`
/// where it is no regular file) or its folder is not.
PredictionPlan plan_predictions(const PredictionWish& wish, const Meaning& meaning);

/// The names of the classes for `outputs` of the model: where two classes have one name, its number
/// is added; empty where the names are not those of the outputs.
std::vector<std::string> distinct_names(const std::vector<std::string>& names,
                                        std::int64_t outputs);

/// Bytes of the file where its format tells them beforehand; else 0.
std::uint64_t known_bytes(const PredictionPlan& plan, std::int64_t samples, std::int64_t outputs);

/// Bytes of what the ranks write beside the file for it: logits and targets, of so many bytes a
/// sample. Names come on top.
std::uint64_t part_bytes(std::int64_t samples, std::int64_t outputs, std::uint64_t target_bytes);

/// Throws Error(resource) where the disk of the file has no such room.
void check_room(const fs::path& file, std::uint64_t bytes);

/// What the ranks have left, and in which folder.
struct LeftParts {
  fs::path run_dir;
  int world_size = 1;
  const events::Evaluated& told;
};

/// Asked now and then; what it throws ends the writing.
using StopCheck = std::function<void()>;

/// Makes the file of what the ranks have left; it appears complete or not at all. Throws
/// Error(resource) where it cannot be written, Error(config) where there is one by now that the
/// plan does not replace.
void write_predictions(
    const LeftParts& left, const PredictionPlan& plan, const StopCheck& check_stop = [] {});

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
