#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace trainctl::spec::model {

struct Torchscript {
  static constexpr auto kSummary =
      "A module that torch.jit.script or torch.jit.trace has saved, trained further.";

  std::filesystem::path path;
  std::optional<std::string> sha256;

  [[nodiscard]] static bool takes(Inputs /*inputs*/) { return true; }
  /// The bytes of the file, which are those that `sha256` pins. Throws Error(config).
  [[nodiscard]] std::string read() const;

  static void describe(config::Describe<Torchscript>& options) {
    options
        .field("path", &Torchscript::path,
               "The file that torch.jit.save wrote: code and weights, so use only files you trust.")
        .required()
        .example("models/net.pt");
    options
        .field("sha256", &Torchscript::sha256,
               "SHA-256 of the file in hexadecimal, which pins it; the error about a missing or "
               "wrong one tells the file's.")
        .not_empty()
        .example("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  }
};

}  // namespace trainctl::spec::model
