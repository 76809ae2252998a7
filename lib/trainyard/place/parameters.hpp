#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/placer.hpp"

/// Typed parameters of placers. A parameter is declared once, as a constant, which describes it in Placer::parameters
/// and reads its value:
///
///     constexpr Choice kBy{"by", {{"start", By::start}, {"finish", By::finish}}, By::start, "which pair is the
///     earliest"};
///
///     make_placer({.name = "etf", .summary = ..., .source = ..., .parameters = {kBy}},
///                 [](const Problem& problem, const Parameters& given) { return etf(problem, {.by = given[kBy]}); });
namespace trainyard {

/// A word that a user may write, and the value that it stands for.
template <class T>
struct Word {
  std::string_view word;
  T value;
};

namespace detail {

template <class T>
struct PlainNumber {
  using type = T;
};
template <class T>
struct PlainNumber<std::optional<T>> {
  using type = T;
};

std::optional<std::uint64_t> read_number(std::string_view text, std::uint64_t least, std::uint64_t most);
std::optional<double> read_number(std::string_view text, double least, double most);
std::string number_text(std::uint64_t value);
std::string number_text(double value);
std::string one_of(std::span<const std::string_view> words);
/// Text of the allowed values, such as "a whole number from 1 to 8, or auto".
std::string number_from(std::string_view kind, const std::string& least, const std::string& most,
                        std::span<const std::string_view> words);

}  // namespace detail

/// A parameter whose value is one of N words.
template <class T, std::size_t N>
class Choice {
 public:
  using Value = T;

  constexpr Choice(std::string_view name, const Word<T> (&words)[N], T usual, std::string_view meaning)
      : name_(name), meaning_(meaning), usual_(usual) {
    std::copy(words, words + N, words_.begin());
  }
  /// The parameter with another default.
  constexpr Choice usually(T usual) const {
    Choice other = *this;
    other.usual_ = usual;
    return other;
  }
  /// The parameter with another description.
  constexpr Choice meaning(std::string_view text) const {
    Choice other = *this;
    other.meaning_ = text;
    return other;
  }

  std::optional<T> read(std::string_view text) const {
    for (const Word<T>& each : words_)
      if (each.word == text) return each.value;
    return std::nullopt;
  }
  std::string allowed() const {
    std::array<std::string_view, N> words;
    std::ranges::transform(words_, words.begin(), &Word<T>::word);
    return detail::one_of(words);
  }
  operator PlacerParameter() const {
    const auto usual = std::ranges::find(words_, usual_, &Word<T>::value);
    return {std::string{name_}, std::string{usual->word}, std::string{meaning_}};
  }

  std::string_view name() const { return name_; }

 private:
  std::string_view name_, meaning_;
  T usual_;
  std::array<Word<T>, N> words_{};
};

constexpr Choice<bool, 2> yes_or_no(std::string_view name, bool usual, std::string_view meaning) {
  return {name, {{"no", false}, {"yes", true}}, usual, meaning};
}

/// A parameter that is a whole number (std::uint64_t) or a real number (double) in a range, both ends included, or one
/// of up to two words. If a word stands for no number, the value is a std::optional. The text may have the unit behind
/// the number.
template <class T>
class Number {
 public:
  using Value = T;
  using Plain = typename detail::PlainNumber<T>::type;
  static_assert(std::is_same_v<Plain, std::uint64_t> || std::is_same_v<Plain, double>);

  constexpr Number(std::string_view name, Plain least, Plain most, T usual, std::string_view meaning,
                   std::initializer_list<Word<T>> words = {}, std::string_view unit = {})
      : name_(name), meaning_(meaning), unit_(unit), least_(least), most_(most), usual_(usual), count_(words.size()) {
    std::copy(words.begin(), words.end(), words_.begin());
  }

  std::optional<T> read(std::string_view text) const {
    for (const Word<T>& each : words())
      if (each.word == text) return each.value;
    if (!unit_.empty() && text.ends_with(unit_)) text.remove_suffix(unit_.size());
    if (const std::optional<Plain> number = detail::read_number(text, least_, most_)) return T{*number};
    return std::nullopt;
  }
  std::string allowed() const {
    std::vector<std::string_view> known;
    for (const Word<T>& each : words()) known.push_back(each.word);
    return detail::number_from(std::is_same_v<Plain, double> ? "a number" : "a whole number",
                               detail::number_text(least_), detail::number_text(most_), known);
  }
  operator PlacerParameter() const {
    std::string usual;
    for (const Word<T>& each : words())
      if (each.value == usual_) usual = each.word;
    if (usual.empty()) usual = detail::number_text(*std::optional<Plain>{usual_}) + std::string{unit_};
    return {std::string{name_}, std::move(usual), std::string{meaning_}};
  }

  std::string_view name() const { return name_; }

 private:
  std::span<const Word<T>> words() const { return {words_.data(), count_}; }

  std::string_view name_, meaning_, unit_;
  Plain least_, most_;
  T usual_;
  std::array<Word<T>, 2> words_{};
  std::size_t count_;
};

/// Parameter values of one run of a placer: the values given, and defaults for the others.
class Parameters {
 public:
  /// Throws InputError ("unknown-parameter", with the nearest name) if a value is given for a parameter that the placer
  /// does not have.
  Parameters(const Placer& placer, const PlaceOptions& options);

  std::uint64_t seed() const { return options_.seed; }
  const PlaceOptions& options() const { return options_; }
  /// The effort limited by PlaceOptions::budget and PlaceOptions::stop; its seconds run from construction on.
  const Effort& effort() const { return effort_; }
  /// A function that tells whether the run is to end: this share of the seconds is used up, or PlaceOptions::stop says
  /// so. Empty if neither limits the run.
  std::function<bool()> stop(double share = 1) const {
    if (!options_.stop && !options_.budget.seconds) return {};
    return [this, share] { return effort_.late(share); };
  }
  /// The value of a Choice, a Number or any other type with read(). Throws InputError: "parameter-value" if the text is
  /// not an allowed value, "unknown-parameter" if the placer does not list the parameter.
  template <class Parameter>
  typename Parameter::Value operator[](const Parameter& parameter) const {
    const std::string& given = text(parameter.name());
    const std::optional<typename Parameter::Value> value = parameter.read(given);
    if (!value) refuse_value(parameter.name(), given, parameter.allowed());
    return *value;
  }

 private:
  const std::string& text(std::string_view name) const;
  [[noreturn]] void refuse_value(std::string_view name, const std::string& value, const std::string& allowed) const;

  const Placer& placer_;
  const PlaceOptions& options_;
  Effort effort_;
};

/// The described placer with `run` as its algorithm. Placer::place checks the names of the parameters given, sets
/// Schedule::placer and Schedule::seed, and turns OutOfTime into NoPlacementError ("time"). Throws InputError
/// ("placer") if `run` is empty.
Placer make_placer(Placer description, std::function<Schedule(const Problem&, const Parameters&)> run);

}  // namespace trainyard
