// What a change of plan costs, before it is made.

import type { BillingOverview, CatalogPlan } from '#lib/api/schema.d.ts';
import { bytes, count, counted, euros, day } from '#lib/format.ts';

type Bill = Pick<BillingOverview, 'plan' | 'catalog' | 'usage' | 'next_invoice' | 'subscription'>;

/** Amounts with what they are for, and what is to be known besides. */
export interface Preview {
  sums: [what: string, sum: string][];
  notes: string[];
}

/** VAT of a net amount at the rate of the invoice that is known; half a cent is rounded up, as on the invoice. */
export function vatLike(known: { net_cents: number; vat_cents: number }, net: number): number {
  if (known.net_cents === 0) return 0;
  // Rates have one decimal of a percent at most.
  const permille = Math.round((known.vat_cents / known.net_cents) * 1000);
  return Math.round((net * permille) / 1000);
}

const priceOf = (bill: Bill) =>
  bill.catalog.find(({ id }) => id === bill.subscription?.plan)?.price_cents ?? 0;

/** What changing to `plan` means. */
export function ofChange(bill: Bill, plan: CatalogPlan): Preview {
  const isMore = plan.price_cents > priceOf(bill);
  const next = bill.next_invoice;
  const sums: Preview['sums'] = [['To pay now', euros(0)]];
  if (next) {
    const vat = vatLike(next, plan.price_cents);
    sums.push([`Next invoice, ${day(next.charged_at)}`, euros(plan.price_cents + vat)]);
    sums.push([`of which VAT`, euros(vat)]);
    sums.push([`instead of`, euros(next.total_cents)]);
  } else {
    sums.push(['From the next invoice on, a month without VAT', euros(plan.price_cents)]);
  }
  const when = bill.subscription?.renews_at;
  const notes = isMore
    ? [`${plan.name}'s limits apply at once; after a payment that failed, with the next renewal.`]
    : [`${plan.name} applies from ${when ? day(when) : 'the next renewal'} on. Until then everything stays.`];
  return { sums, notes: [...notes, ...tooMuch(bill, plan)] };
}

/** What cancelling means: what is kept until when, and what applies then. */
export function ofCancelling(bill: Bill): Preview {
  const free = bill.catalog.find(({ price_cents }) => price_cents === 0);
  const when = bill.subscription?.renews_at;
  const sums: Preview['sums'] = [
    ['To pay now', euros(0)],
    ['Next invoice', 'none'],
  ];
  if (bill.next_invoice) sums.push(['instead of', euros(bill.next_invoice.total_cents)]);
  const notes = [
    `The plan stays until ${when ? day(when) : 'the month that is paid ends'}${free ? `; then ${free.name} applies` : ''}. Nothing is deleted, and you can resume it until then.`,
  ];
  return { sums, notes: free ? [...notes, ...tooMuch(bill, free)] : notes };
}

/** What resuming means. */
export function ofResuming(bill: Bill): Preview {
  const plan = bill.catalog.find(({ id }) => id === bill.subscription?.plan);
  const when = bill.subscription?.renews_at;
  return {
    sums: [
      ['To pay now', euros(0)],
      [
        `From ${when ? day(when) : 'the next renewal'} on, a month without VAT`,
        euros(plan?.price_cents ?? 0),
      ],
    ],
    notes: ['The plan renews again, month by month, until you cancel it.'],
  };
}

/** What is used already and is more than the plan allows. */
function tooMuch({ usage }: Bill, plan: CatalogPlan): string[] {
  const over: string[] = [];
  if (usage.projects > plan.limits.projects)
    over.push(`${counted(usage.projects, 'site')} (${count(plan.limits.projects)} allowed)`);
  if (usage.domains > plan.limits.domains)
    over.push(`${counted(usage.domains, 'domain')} (${count(plan.limits.domains)} allowed)`);
  if (usage.bandwidth_bytes > plan.limits.bandwidth_bytes)
    over.push(`${bytes(usage.bandwidth_bytes)} this month (${bytes(plan.limits.bandwidth_bytes)} allowed)`);
  return over.length === 0
    ? []
    : [
        `You have more than ${plan.name} allows: ${over.join(', ')}. It stays, and nothing can be added to it.`,
      ];
}
