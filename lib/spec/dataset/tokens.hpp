#pragma once

#include "config/schema/describe.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace trainctl::spec::dataset {

enum class TokenType { uint16, uint32 };
constexpr std::array<const char*, 2> enum_names(TokenType) { return {"uint16", "uint32"}; }

struct Tokens {
  static constexpr auto kSummary =
      "A stream of token numbers in one file; a sample is a window and the same one token on.";

  std::filesystem::path path;
  TokenType dtype = TokenType::uint16;
  std::int64_t sequence_length = 0;
  std::optional<std::int64_t> stride;
  std::optional<std::int64_t> vocab_size;
  std::int64_t header_bytes = 0;

  static void describe(config::Describe<Tokens>& options) {
    options.field("path", &Tokens::path, "File of little-endian numbers without separators.")
        .required()
        .example("data/shakespeare/train.bin");
    options.field("dtype", &Tokens::dtype, "Type of each number in the file.");
    options
        .field("sequence_length", &Tokens::sequence_length,
               "Tokens of a sample; its targets lie one token further on.")
        .required()
        .at_least(1)
        .at_most(16'777'216)
        .example("1024");
    options
        .field("stride", &Tokens::stride,
               "Tokens from one sample's begin to the next; otherwise sequence_length.")
        .at_least(1)
        .example("512");
    options
        .field("vocab_size", &Tokens::vocab_size,
               "Number of different tokens; a higher one in the file is an error.")
        .at_least(2)
        .at_most(4'294'967'296)
        .example("50257");
    options.field("header_bytes", &Tokens::header_bytes, "Bytes in front of the first token.")
        .at_least(0);
  }
};

}  // namespace trainctl::spec::dataset
