#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/text/tokenizer.hpp"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <exception>
#include <unordered_map>

namespace trainctl::data {
namespace {

/// SentencePiece returns -1 for pieces that a model does not have.
std::optional<std::uint32_t> known(int id) {
  return id < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(id));
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string_view model, const char* name) {
    const auto status = processor_.LoadFromSerializedProto(model);
    ENSURE(data, status.ok() && processor_.GetPieceSize() > 0,
           "{} is not a valid SentencePiece model: {}", printable(name),
           printable(status.message()));
  }

  [[nodiscard]] std::int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  [[nodiscard]] std::optional<std::uint32_t> end_id() const override {
    return known(processor_.eos_id());
  }
  [[nodiscard]] std::optional<std::uint32_t> padding_id() const override {
    return known(processor_.pad_id());
  }
  void encode(std::string_view text, std::vector<std::uint32_t>& ids) const override {
    std::vector<int> found;
    const auto status = processor_.Encode(text, &found);
    ENSURE(data, status.ok(), "SentencePiece cannot encode a text: {}",
           printable(status.message()));
    ids.insert(ids.end(), found.begin(), found.end());
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

/// The lines for the training. An exception of `next` ends them and is kept, because SentencePiece
/// is not written for exceptions.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::function<std::optional<std::string>()>& next) : next_(next) {
    Lines::Next();
  }
  [[nodiscard]] bool done() const override { return !line_; }
  void Next() override {
    try {
      line_ = next_();
    } catch (...) {
      line_.reset();
      failure_ = std::current_exception();
    }
  }
  [[nodiscard]] const std::string& value() const override { return *line_; }
  [[nodiscard]] sentencepiece::util::Status status() const override { return {}; }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const std::function<std::optional<std::string>()>& next_;
  std::optional<std::string> line_;
  std::exception_ptr failure_;
};

void train(const TrainingOptions& options, const std::function<std::optional<std::string>()>& next,
           std::string& model) {
  const std::unordered_map<std::string, std::string> settings{
      {"model_type", enum_names(options.type)[static_cast<std::size_t>(options.type)]},
      {"vocab_size", std::to_string(options.vocab_size)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"pad_id", "0"},
      {"eos_id", "1"},
      {"unk_id", "2"},
      {"bos_id", "-1"},
      {"num_threads", "4"},  // the last digits of scores depend on it
      {"minloglevel", "2"}};
  Lines lines(next);
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model);
  lines.rethrow();
  if (status.ok()) return;
  // The message begins with a place in SentencePiece's source and the condition in brackets.
  const std::string message = status.message();
  const std::size_t bracket = message.find("] ");
  throw Error(ErrorKind::config,
              "SentencePiece cannot train a model: " +
                  printable(bracket == message.npos ? message : message.substr(bracket + 2)));
}

}  // namespace
}  // namespace trainctl::data

extern "C" __attribute__((visibility("default"))) trainctl::data::Tokenizer*
trainctl_sentencepiece_open_1(std::string_view model, const char* name) {
  return new trainctl::data::SentencePieceTokenizer(model, name);
}

extern "C" __attribute__((visibility("default"))) void trainctl_sentencepiece_train_1(
    const trainctl::data::TrainingOptions& options,
    const std::function<std::optional<std::string>()>& next, std::string& model) {
  trainctl::data::train(options, next, model);
}

extern "C" __attribute__((visibility("default"))) const char* trainctl_sentencepiece_version() {
  return TRAINCTL_SENTENCEPIECE_VERSION;
}
