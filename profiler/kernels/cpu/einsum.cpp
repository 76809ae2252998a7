#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "profiler/kernels/cpu/matrix.hpp"

namespace trainyard::cpu {
namespace {

/// A term of an equation: the letter of each dimension. Dimensions of the ellipsis are called 0 to 9, the last of them
/// 9.
using Term = std::string;

struct Equation {
  std::vector<Term> inputs;
  Term output;
  std::map<char, std::int64_t> extent;

  explicit Equation(const OpArrays& c) {
    std::string text = c.node.text("equation", "");
    std::erase(text, ' ');
    const std::size_t arrow = text.find("->");
    std::string left = text.substr(0, arrow);
    std::size_t widest = 0;
    std::map<char, int> uses;
    for (const ValueId id : c.node.inputs) {
      const std::size_t comma = left.find(',');
      const Shape& shape = c.value(id).shape;
      const Term term = with_digits(left.substr(0, comma), shape.size(), widest);
      for (std::size_t i = 0; i < term.size(); ++i) {
        std::int64_t& size = extent[term[i]];
        size = std::max(size, shape[i]);
        if (term[i] > '9') ++uses[term[i]];
      }
      inputs.push_back(term);
      left = comma == std::string::npos ? "" : left.substr(comma + 1);
    }
    if (arrow != std::string::npos) {
      const std::string right = text.substr(arrow + 2);
      output =
          with_digits(right, right.find("...") == std::string::npos ? right.size() : right.size() - 3 + widest, widest);
    } else {
      for (std::size_t i = widest; i-- > 0;) output += static_cast<char>('9' - static_cast<int>(i));
      for (const auto& [letter, count] : uses)
        if (count == 1) output += letter;
    }
  }

 private:
  static Term with_digits(const std::string& term, std::size_t rank, std::size_t& widest) {
    const std::size_t dots = term.find("...");
    if (dots == std::string::npos) return term;
    const std::size_t count = rank - (term.size() - 3);
    widest = std::max(widest, count);
    std::string digits;
    for (std::size_t i = count; i-- > 0;) digits += static_cast<char>('9' - static_cast<int>(i));
    return term.substr(0, dots) + digits + term.substr(dots + 3);
  }
};

/// Strides along each letter of `all` in an array with this term and shape: 0 for a letter that the term lacks or whose
/// dimension has size 1; the sum for a letter that occurs twice (a diagonal).
std::vector<std::int64_t> steps(const Term& all, const Term& term, const Shape& shape) {
  std::vector<std::int64_t> result(all.size(), 0);
  std::int64_t step = 1;
  for (std::size_t i = term.size(); i-- > 0;) {
    if (shape[i] != 1) result[all.find(term[i])] += step;
    step *= shape[i];
  }
  return result;
}

/// One array of a contraction.
struct Part {
  const float* data;
  const Term& term;
  const Shape& shape;
};

/// to[..] += the product of all parts, summed over all letters.
void contract_plainly(const Equation& e, const std::vector<Part>& parts, float* to, const Term& term,
                      const Shape& shape) {
  Term all;
  for (const auto& entry : e.extent) all += entry.first;
  const std::size_t n = parts.size();
  std::vector<std::vector<std::int64_t>> step;
  for (const Part& part : parts) step.push_back(steps(all, part.term, part.shape));
  step.push_back(steps(all, term, shape));
  std::vector<std::int64_t> at(n + 1, 0), index(all.size(), 0), size;
  for (const char letter : all) size.push_back(e.extent.at(letter));
  if (std::find(size.begin(), size.end(), 0) != size.end()) return;
  while (true) {
    float product = 1;
    for (std::size_t k = 0; k < n; ++k) product *= parts[k].data[at[k]];
    to[at[n]] += product;
    std::size_t d = all.size();
    while (d-- > 0) {
      for (std::size_t k = 0; k <= n; ++k) at[k] += step[k][d];
      if (++index[d] < size[d]) break;
      for (std::size_t k = 0; k <= n; ++k) at[k] -= step[k][d] * size[d];
      index[d] = 0;
    }
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

/// The array with its dimensions permuted to `order`.
const float* turned(const Part& part, const Term& order, const Equation& e) {
  if (part.term == order) return part.data;
  Shape shape;
  for (const char letter : order) shape.push_back(e.extent.at(letter));
  const auto step = steps(order, part.term, part.shape);
  float* to = Scratch::floats(static_cast<std::size_t>(std::max<std::int64_t>(1, elements(shape))));
  std::vector<std::int64_t> index(order.size(), 0);
  std::int64_t at = 0;
  for (std::int64_t i = 0, n = elements(shape); i < n; ++i) {
    to[i] = part.data[at];
    for (std::size_t d = order.size(); d-- > 0;) {
      at += step[d];
      if (++index[d] < shape[d]) break;
      at -= step[d] * shape[d];
      index[d] = 0;
    }
  }
  return to;
}

/// Contracts two arrays as a batch of matrix products, if each letter is in at least two of the three terms, once in
/// each, and nothing is broadcast. Otherwise returns false, and nothing was done.
bool contract_as_products(const Equation& e, const Part& a, const Part& b, float* to, const Term& term,
                          const Shape& shape) {
  const auto whole = [&](const Term& t, const Shape& s) {
    for (std::size_t i = 0; i < t.size(); ++i)
      if (s[i] != e.extent.at(t[i]) || t.find(t[i]) != i) return false;
    return true;
  };
  if (!whole(a.term, a.shape) || !whole(b.term, b.shape) || !whole(term, shape)) return false;
  Term batch, rows, columns, inner;
  for (const auto& [letter, extent] : e.extent) {
    const bool in_a = a.term.find(letter) != Term::npos, in_b = b.term.find(letter) != Term::npos;
    const bool in_to = term.find(letter) != Term::npos;
    if (in_a + in_b + in_to < 2) return false;
    (in_a && in_b ? (in_to ? batch : inner) : in_a ? rows : columns) += letter;
  }
  const auto size = [&](const Term& letters) {
    std::int64_t product = 1;
    for (const char letter : letters) product *= e.extent.at(letter);
    return product;
  };
  const std::int64_t m = size(rows), n = size(columns), k = size(inner), count = size(batch);
  const float *left = turned(a, batch + rows + inner, e), *right = turned(b, batch + inner + columns, e);
  const Term made = batch + rows + columns;
  float* product =
      made == term ? to : Scratch::floats(static_cast<std::size_t>(std::max<std::int64_t>(1, count * m * n)));
  for (std::int64_t i = 0; i < count; ++i)
    multiply(matrix(const_cast<float*>(left) + i * m * k, m, k), false,
             matrix(const_cast<float*>(right) + i * k * n, k, n), false, matrix(product + i * m * n, m, n), false);
  if (product == to) return true;
  Shape made_shape;
  for (const char letter : made) made_shape.push_back(e.extent.at(letter));
  const float* result = turned({product, made, made_shape}, term, e);
  std::copy_n(result, elements(shape), to);
  return true;
}

void contract(const Equation& e, const std::vector<Part>& parts, float* to, const Term& term, const Shape& shape) {
  if (parts.size() == 2 && contract_as_products(e, parts[0], parts[1], to, term, shape)) return;
  std::fill_n(to, elements(shape), 0.0F);
  contract_plainly(e, parts, to, term, shape);
}

void einsum(OpArrays& c) {
  const Equation e{c};
  std::vector<Part> parts;
  for (std::size_t i = 0; i < c.in.size(); ++i) parts.push_back({c.in[i].data, e.inputs[i], *c.in[i].shape});
  contract(e, parts, c.out[0].data, e.output, *c.out[0].shape);
}

/// The gradient of one input contracts the output's gradient with all other inputs.
void einsum_backward(OpArrays& c) {
  const Equation e{c};
  for (std::size_t i = 0; i < c.dx.size(); ++i) {
    if (!c.wants(i)) continue;
    std::vector<Part> parts{{c.dy[0].data, e.output, *c.dy[0].shape}};
    for (std::size_t k = 0; k < c.in.size(); ++k)
      if (k != i) parts.push_back({c.in[k].data, e.inputs[k], *c.in[k].shape});
    contract(e, parts, c.dx[i].data, e.inputs[i], *c.dx[i].shape);
  }
}

constexpr OpKernels kEinsum[] = {{"Einsum", einsum, einsum_backward}};

}  // namespace

std::span<const OpKernels> einsum_kernels() { return kEinsum; }

}  // namespace trainyard::cpu
