#include "config/usual_stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>

namespace trainctl::config {
namespace {

struct Kind {
  std::string_view kind;
  std::string_view place;
  bool is_list;
  std::array<std::string_view, 3> usual;  // the most common first
};

constexpr std::array<Kind, 12> kKinds{{
    {"dataset", "dataset.train", false, {"image_folder", "csv", "mnist"}},
    {"transform", "dataset.train.transforms", true, {"random_resized_crop", "resize", "normalize"}},
    {"batch_transform", "dataset.train.batch_transforms", true, {"mixup", "cutmix", ""}},
    {"sampler", "loader.sampler", false, {"weighted_random", "class_balanced", ""}},
    {"model", "model", false, {"resnet18", "mlp", "vit_tiny"}},
    {"layer", "model.layers", true, {"linear", "conv2d", "relu"}},
    {"loss", "loss", false, {"cross_entropy", "mse", "bce_with_logits"}},
    {"optimizer", "optimizer", false, {"adamw", "sgd", "adam"}},
    {"scheduler", "scheduler", false, {"cosine_annealing_lr", "step_lr", "one_cycle_lr"}},
    {"stopper", "early_stopping", false, {"patience", "", ""}},
    {"metric", "metrics", true, {"accuracy", "", ""}},
    {"logger", "loggers", true, {"csv", "tensorboard", ""}},
}};

const Kind* find_kind(std::string_view kind) {
  const auto* const found = std::ranges::find(kKinds, kind, &Kind::kind);
  return found == kKinds.end() ? nullptr : found;
}

}  // namespace

std::string usual_stage(const Vocabulary& vocabulary, std::string_view kind,
                        const std::vector<std::string>& keys) {
  const std::vector<std::string> names = vocabulary.names(kind);
  if (names.empty()) return "name";
  const Kind* known = find_kind(kind);
  const auto rank = [&](const std::string& name) {
    const Schema& schema = vocabulary.find(kind, name)->schema;
    const auto fits = std::ranges::count_if(
        keys, [&](const std::string& key) { return schema.find(key) != nullptr; });
    std::size_t usual = 0;
    if (known != nullptr)
      usual =
          static_cast<std::size_t>(std::ranges::find(known->usual, name) - known->usual.begin());
    return std::tuple(-fits, usual, schema.fields.size());
  };
  return *std::ranges::min_element(names, {}, rank);
}

std::string_view place_of_kind(std::string_view kind) {
  const Kind* known = find_kind(kind);
  return known == nullptr ? std::string_view() : known->place;
}

std::string stage_elsewhere_hint(const Vocabulary& vocabulary, std::string_view name,
                                 std::string_view except) {
  for (const Kind& kind : kKinds) {
    if (kind.kind == except || vocabulary.find(kind.kind, name) == nullptr) continue;
    std::string spoken(kind.kind);
    std::ranges::replace(spoken, '_', ' ');
    const char* article =
        std::string_view("aeio").find(spoken[0]) != std::string_view::npos ? "an" : "a";
    return fmt::format("it is {} {}: write '{}: {}{}{}'", article, spoken, kind.place,
                       kind.is_list ? "[" : "", name, kind.is_list ? "]" : "");
  }
  return "";
}

}  // namespace trainctl::config
