#include "data/text/tokenizer.hpp"

#include "base/machine/shared_library.hpp"
#include "data/formats/file_reader.hpp"

namespace trainctl::data {
namespace {

constexpr std::int64_t kBytes = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::int64_t vocab_size() const override { return kBytes; }
  [[nodiscard]] bool reads_bytes() const override { return true; }
  void encode(std::string_view text, std::vector<std::uint32_t>& ids) const override {
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  }
};

/// The functions of the module. It is loaded when it is first needed, so that other commands do not
/// wait for it.
struct SentencePiece {
  SentencePieceOpen open = nullptr;
  SentencePieceTrain train = nullptr;
  const char* cause = nullptr;  // why the module cannot be loaded
};

const SentencePiece& sentencepiece() {
  static const SentencePiece loaded = [] {
    SentencePiece found;
    found.open = reinterpret_cast<SentencePieceOpen>(
        find_in_module(kSentencePieceLibrary, kSentencePieceOpenSymbol, found.cause));
    if (found.open != nullptr)
      found.train = reinterpret_cast<SentencePieceTrain>(
          find_in_module(kSentencePieceLibrary, kSentencePieceTrainSymbol, found.cause));
    return found;
  }();
  return loaded;
}

const SentencePiece& required_sentencepiece() {
  ENSURE(config, has_sentencepiece(),
         "{} cannot be loaded: {}\nhint: install libsentencepiece-dev and build again, or use "
         "'tokenizer: bytes'",
         kSentencePieceLibrary, sentencepiece().cause);
  return sentencepiece();
}

std::string content_of(const fs::path& path) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  const FileReader file(path);
  ENSURE(data, file.size() > 0 && file.size() <= kMostBytes,
         "{} has {} bytes, so it is not a SentencePiece model", shown(path), file.size());
  std::string content(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

}  // namespace

bool has_sentencepiece() { return sentencepiece().train != nullptr; }

std::unique_ptr<Tokenizer> make_tokenizer(spec::dataset::TokenizerType type,
                                          const std::optional<fs::path>& model) {
  if (type == spec::dataset::TokenizerType::bytes) {
    ENSURE(config, !model,
           "the tokenizer 'bytes' has no model, got {}\nhint: remove the model, or choose the "
           "tokenizer 'sentencepiece'",
           shown(*model));
    return std::make_unique<ByteTokenizer>();
  }
  ENSURE(config, model,
         "the tokenizer 'sentencepiece' needs a model\nhint: set 'model', or train one with "
         "trainctl data tokenize --train");
  const std::string content = content_of(*model);
  return std::unique_ptr<Tokenizer>(required_sentencepiece().open(content, model->c_str()));
}

void check_utf8(std::string_view text, const std::function<std::string(std::uint64_t)>& place) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    ENSURE(data, length > 0,
           "{} is not valid UTF-8: byte 0x{:02x}\nhint: save the text as UTF-8, or use the "
           "tokenizer 'bytes'",
           place(at), static_cast<unsigned char>(text[at]));
    at += length;
  }
}

std::string train_sentencepiece(const TrainingOptions& options,
                                const std::function<std::optional<std::string>()>& next) {
  std::string model;
  required_sentencepiece().train(options, next, model);
  return model;
}

}  // namespace trainctl::data
