#pragma once

#include "config/schema/stage.hpp"
#include "spec/sample.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainctl::study {

/// One sample as the ranks have told it.
struct SampleRow {
  std::int64_t index = 0;  // in the order of the split
  std::string name;        // empty: it has none
  std::int64_t label = 0;  // where its target is a class, and told
  std::vector<float> targets;
  std::vector<float> logits;
};

/// What makes probabilities of logits: the function that belongs to the loss.
enum class Scale { none, softmax, sigmoid };

/// What the outputs of a model say.
struct Meaning {
  Scale scale = Scale::none;
  bool one_class = false;  // of each sample; else its outputs stand for themselves
};

Meaning meaning_of(const config::Stage& loss, spec::Targets targets);

/// In double precision, rounded to float once. The scale is not `none`.
std::vector<float> probabilities(std::span<const float> logits, Scale scale);

/// The first of the largest, as torch.argmax has it: NaN is larger than any number.
std::size_t largest(std::span<const float> logits);

}  // namespace trainctl::study
