#pragma once

#include "config/schema/describe.hpp"
#include "config/tree/node.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::spec {

/// Samples per step on each device: a number, or `auto`, which `trainctl run` replaces by a number
/// first. It converts to a number everywhere; while it is `auto`, to the smallest candidate.
struct BatchSize {
  static constexpr std::int64_t kSmallest = 8;

  std::int64_t samples = 64;
  bool automatic = false;

  BatchSize() = default;
  BatchSize(std::int64_t number) : samples(number) {}  // NOLINT(google-explicit-constructor)
  operator std::int64_t() const { return samples; }    // NOLINT(google-explicit-constructor)
};

}  // namespace trainctl::spec

template <>
struct trainctl::config::Codec<trainctl::spec::BatchSize> {
  static FieldType type() {
    FieldType type = Codec<std::int64_t>::type();
    type.accepts_auto = true;
    return type;
  }
  static void read(Reader& reader, const Node& node, const Field& field, spec::BatchSize& out) {
    out.automatic = Reader::is_auto(node);
    if (out.automatic) {
      out.samples = spec::BatchSize::kSmallest;
    } else {
      Codec<std::int64_t>::read(reader, node, field, out.samples);
    }
  }
  static Node write(const spec::BatchSize& value) {
    return value.automatic ? Node::scalar("auto") : Codec<std::int64_t>::write(value.samples);
  }
};

namespace trainctl::spec {

/// The devices of a node. In YAML a number, a list of GPUs by number ([1, 3]), and for all `auto`
/// or -1 as in Lightning.
struct Devices {
  std::optional<int> value;  // how many; nullopt: all
  std::vector<int> gpus;     // by number; only valid if they are as many as `value` says

  [[nodiscard]] bool is_auto() const { return !value; }
  [[nodiscard]] bool is_list() const {
    return value && !gpus.empty() && *value == std::ssize(gpus);
  }
  [[nodiscard]] int value_or(int fallback) const { return value.value_or(fallback); }
  bool operator==(const Devices&) const = default;
};

}  // namespace trainctl::spec

template <>
struct trainctl::config::Codec<trainctl::spec::Devices> {
  static FieldType type() {
    FieldType type = Codec<int>::type();
    type.accepts_auto = type.accepts_list = true;
    return type;
  }
  static void read(Reader& reader, const Node& node, const Field& field, spec::Devices& out);
  static Node write(const spec::Devices& devices);
};

namespace trainctl::spec {

/// A limit on bytes. In YAML a share of the available bytes (50%) or a number with a unit (8GiB,
/// 500MB).
struct Budget {
  std::optional<std::uint64_t> bytes;
  double share = 0.5;

  [[nodiscard]] std::uint64_t of(std::uint64_t available) const {
    return bytes.value_or(static_cast<std::uint64_t>(static_cast<double>(available) * share));
  }
  bool operator==(const Budget&) const = default;
};

/// Returns nullopt if the text is not a budget.
std::optional<Budget> parse_budget(std::string_view text);
/// Returns the text that parse_budget() reads.
std::string to_text(const Budget& budget);

}  // namespace trainctl::spec

template <>
struct trainctl::config::Codec<trainctl::spec::Budget> {
  static FieldType type() { return {.type = ValueType::string}; }
  static void read(Reader& reader, const Node& node, const Field& field, spec::Budget& out);
  static Node write(const spec::Budget& budget) { return Node::scalar(spec::to_text(budget)); }
};

namespace trainctl::spec {

/// How much of an epoch runs. In YAML an integer is a number of batches, a number with a decimal
/// point (0.25, 1.0) a share of them, as in Lightning.
struct Limit {
  std::optional<std::int64_t> batches;
  double fraction = 1;

  /// Returns how many of `total` batches run; a share above 0 means at least one.
  [[nodiscard]] std::int64_t of(std::int64_t total) const {
    if (batches) return std::min(*batches, total);
    const auto share = static_cast<std::int64_t>(static_cast<double>(total) * fraction);
    return fraction > 0 ? std::max<std::int64_t>(share, std::min<std::int64_t>(total, 1)) : 0;
  }
  bool operator==(const Limit&) const = default;
};

}  // namespace trainctl::spec

template <>
struct trainctl::config::Codec<trainctl::spec::Limit> {
  static FieldType type() { return {.type = ValueType::number}; }
  static void read(Reader& reader, const Node& node, const Field& field, spec::Limit& out);
  static Node write(const spec::Limit& limit);
};

namespace trainctl::spec {

/// Returns the seconds of a duration: "DD:HH:MM:SS" as in Lightning, "HH:MM:SS", or numbers with
/// units such as "90s", "30m", "1h30m", "2d". Returns nullopt for other text and for durations that
/// are not positive.
std::optional<double> parse_duration(std::string_view text);

/// The changes for a further attempt of a diverged run: overrides as on the command line.
struct Fallback {
  std::vector<std::string> values;
  bool operator==(const Fallback&) const = default;
};

/// One of these overrides, and its positions in the file: one for a text; for a map one for each
/// key on the path, and one for the value.
struct FallbackChange {
  std::string text;
  std::vector<config::Position> places;
  /// Returns the position in the file for a column of the text, counted from 1.
  [[nodiscard]] config::Position place_of(int column) const;
};

/// Returns the changes of an entry of `on_divergence`: a text is one override, a map has one for
/// each of its leaves ({optimizer: {lr: 0.01}} and {optimizer.lr: 0.01} are the same), a list may
/// hold both.
std::vector<FallbackChange> changes_of(const config::Node& entry);

struct Unfreeze {
  static constexpr auto kSummary = "Parameters of freeze that are trained from some epoch on.";

  std::int64_t epoch = 1;
  std::vector<std::string> match;

  static void describe(auto& options) {
    options.field("epoch", &Unfreeze::epoch, {.required = true, .at_least = 1, .example = "5"},
                  "Epochs before the parameters are trained.");
    options.field("match", &Unfreeze::match,
                  {.required = true, .not_empty = true, .example = "[layer4, \"layer3.*\"]"},
                  "Parameters by name, as in freeze.");
  }
};

/// The weights file that the training starts from.
struct Weights {
  static constexpr auto kSummary = "File with the initial weights.";

  std::filesystem::path path;
  std::optional<std::string> sha256;
  bool strict = true;
  std::string section;  // key of the state dict in a file of torch.save; "": the usual keys
  std::string prefix;
  std::map<std::string, std::string> key_map;

  static void describe(auto& options) {
    options.field(
        "path", &Weights::path, {.required = true, .example = "resnet18.pth"},
        "A safetensors file, a state dict of PyTorch (.pth, .pt, .ckpt, .bin), or the name "
        "of weights that are downloaded once: torchvision/resnet18.IMAGENET1K_V1.");
    options.field("sha256", &Weights::sha256, {.not_empty = true},
                  "Expected SHA-256 of the file, 64 hex digits; absent: not checked.");
    options.field("strict", &Weights::strict,
                  "true: the file and the model must have the same tensors; false: tensors that "
                  "only one of them has are skipped and reported.");
    options.field("section", &Weights::section, {.example = "state_dict_ema"},
                  "Key of the state dict in a PyTorch file with several state dicts; empty: the "
                  "file itself, or the first of state_dict, model_state_dict, model, "
                  "state_dict_ema, model_ema and net that it contains.");
    options.field("prefix", &Weights::prefix, {.example = "\"model.\""},
                  "Prefix of the tensors to load; it is removed from their names.");
    options.field("key_map", &Weights::key_map,
                  {.example = "{\"encoder.\": \"backbone.\", head.weight: fc.weight}"},
                  "Renames tensors: maps names in the file to names in the model; a name that ends "
                  "with '.' is a prefix.");
  }
};

}  // namespace trainctl::spec

template <>
struct trainctl::config::Codec<trainctl::spec::Fallback> {
  static FieldType type();
  static void read(Reader& reader, const Node& node, const Field& field, spec::Fallback& out);
  static Node write(const spec::Fallback& value);
};

/// In YAML a path alone is a short form of the section.
template <>
struct trainctl::config::Codec<trainctl::spec::Weights> {
  static const std::shared_ptr<const Schema>& schema();
  static FieldType type();
  static void read(Reader& reader, const Node& node, const Field& field, spec::Weights& out);
  static Node write(const spec::Weights& value);
};
