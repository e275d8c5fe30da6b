#pragma once

#include "config/schema/describe.hpp"

#include <array>
#include <filesystem>

namespace trainctl::spec::dataset {

enum class OnStale { fail, ignore };
constexpr std::array<const char*, 2> enum_names(OnStale) { return {"fail", "ignore"}; }

struct Pack {
  static constexpr auto kSummary = "Images in one file, written by `trainctl data pack`.";

  std::filesystem::path path;
  config::Stage source;
  OnStale on_stale = OnStale::fail;

  static void describe(config::Describe<Pack>& options) {
    options.field("path", &Pack::path, "The pack file.").required().example("data/train.pack");
    options.stage(
        "source", &Pack::source, "dataset",
        "The data set it was made from; a pack of other samples is then refused. Otherwise "
        "the pack remembers it.");
    options.field("on_stale", &Pack::on_stale,
                  "A pack whose remembered source is still in its place and has changed since: "
                  "fail, or ignore.");
  }
};

}  // namespace trainctl::spec::dataset
