#include "trainyard/solve/basis_inverse.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainyard/core/sort_by.hpp"

namespace trainyard::detail {
namespace {

constexpr double kDropped = 1e-14;  // smaller entries are rounding errors
constexpr double kSingular = 1e-9;

}  // namespace

void BasisInverse::forward(std::vector<double>& v) const {
  std::size_t begin = 0;
  for (const Eta& eta : etas_) {
    double& at = v[eta.row];
    if (at != 0) {
      at /= eta.pivot;
      const double factor = at;
      for (std::size_t e = begin; e < eta.end; ++e) v[entries_[e].row] -= entries_[e].value * factor;
    }
    begin = eta.end;
  }
}

void BasisInverse::backward(std::vector<double>& v) const {
  for (std::size_t k = etas_.size(); k-- > 0;) {
    const Eta& eta = etas_[k];
    double sum = v[eta.row];
    for (std::size_t e = k == 0 ? 0 : etas_[k - 1].end; e < eta.end; ++e) sum -= entries_[e].value * v[entries_[e].row];
    v[eta.row] = sum / eta.pivot;
  }
}

void BasisInverse::append(std::size_t row, const std::vector<double>& column) {
  for (std::size_t i = 0; i < rows_; ++i)
    if (i != row && std::abs(column[i]) > kDropped) entries_.push_back({static_cast<std::uint32_t>(i), column[i]});
  etas_.push_back({static_cast<std::uint32_t>(row), column[row], entries_.size()});
}

void BasisInverse::replace(std::size_t row, const std::vector<double>& column) {
  append(row, column);
  ++updates_;
}

std::vector<std::uint32_t> BasisInverse::invert(const std::vector<std::span<const Entry>>& columns) {
  etas_.clear();
  entries_.clear();
  updates_ = 0;

  // A column with a single entry in the remaining rows makes no other column longer. Such columns go first, as long as
  // there are any, and the rest by ascending length.
  std::vector<std::vector<std::uint32_t>> in_row(rows_);
  std::vector<std::uint32_t> open(columns.size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    open[c] = static_cast<std::uint32_t>(columns[c].size());
    for (const Entry& entry : columns[c]) in_row[entry.row].push_back(static_cast<std::uint32_t>(c));
  }
  std::vector<std::uint32_t> rows(columns.size(), kNoRow);
  std::vector<char> row_taken(rows_, 0), column_done(columns.size(), 0);
  std::vector<std::uint32_t> singles, rest(columns.size());
  std::iota(rest.begin(), rest.end(), 0U);
  sort_by(rest, [&](std::uint32_t c) { return columns[c].size(); });
  for (const std::uint32_t c : rest)
    if (open[c] == 1) singles.push_back(c);

  std::vector<double> work(rows_, 0.0);
  const auto eliminate = [&](std::uint32_t c) {
    column_done[c] = 1;
    for (const Entry& entry : columns[c]) work[entry.row] = entry.value;
    forward(work);
    std::uint32_t best = kNoRow;
    for (std::uint32_t i = 0; i < rows_; ++i)
      if (!row_taken[i] && std::abs(work[i]) > (best == kNoRow ? kSingular : std::abs(work[best]))) best = i;
    if (best != kNoRow) {
      append(best, work);
      rows[c] = best;
      row_taken[best] = 1;
      for (const std::uint32_t other : in_row[best])
        if (!column_done[other] && --open[other] == 1) singles.push_back(other);
    }
    std::ranges::fill(work, 0.0);
  };
  std::size_t next_single = 0;
  for (const std::uint32_t c : rest) {
    for (; next_single < singles.size(); ++next_single)
      if (!column_done[singles[next_single]]) eliminate(singles[next_single]);
    if (!column_done[c]) eliminate(c);
  }
  return rows;
}

}  // namespace trainyard::detail
