import { expect, test } from 'vitest';
import type { BillingOverview, CatalogPlan } from '#lib/api/schema.d.ts';
import { ofCancelling, ofChange, vatLike } from './preview.ts';

const plan = (id: string, price_cents: number, projects: number) =>
  ({ id, name: id, price_cents, limits: { projects, domains: 5, bandwidth_bytes: 1e12 } }) as CatalogPlan;
const [free, pro, business] = [plan('free', 0, 3), plan('pro', 2_000, 50), plan('business', 10_000, 2_500)];
const bill = {
  plan: 'pro',
  catalog: [free, pro, business],
  usage: { projects: 12, domains: 1, bandwidth_bytes: 0, ready_apps: 0, ai_credit_cents: 0 },
  subscription: {
    plan: 'pro',
    status: 'active',
    cancel_at_period_end: false,
    renews_at: '2026-12-28T00:00:00Z',
  },
  next_invoice: { net_cents: 2_000, vat_cents: 420, total_cents: 2_420, charged_at: '2026-12-28T00:00:00Z' },
} as unknown as BillingOverview;

test('a larger plan costs nothing now, and the next invoice is known to the cent', () => {
  const { sums, notes } = ofChange(bill, business);
  expect(sums).toEqual([
    ['To pay now', '€0.00'],
    ['Next invoice, 28 Dec 2026', '€121.00'],
    ['of which VAT', '€21.00'],
    ['instead of', '€24.20'],
  ]);
  expect(notes).toHaveLength(1);
});

test('VAT is rounded as on the invoice', () => {
  expect(vatLike({ net_cents: 2_000, vat_cents: 420 }, 999)).toBe(210);
  expect(vatLike({ net_cents: 2_000, vat_cents: 110 }, 10)).toBe(1);
  expect(vatLike({ net_cents: 2_000, vat_cents: 0 }, 10_000)).toBe(0);
});

test('cancelling names what is too much for what follows', () => {
  const { sums, notes } = ofCancelling(bill);
  expect(sums).toContainEqual(['Next invoice', 'none']);
  expect(notes.join(' ')).toContain('12 sites (3 allowed)');
});
